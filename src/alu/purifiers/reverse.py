"""ReverseAttack: moves an image until views of it lie together again (Mao et al. 2021, "... are reversible")."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from alu.errors import UsageError
from alu.models.cards import load
from alu.purifiers.base import Traits
from alu.purifiers.sign_steps import SignSteps
from alu.purifiers.views import CHOICES, View
from alu.rng import digests, uniform_per_image

TEMPERATURE = 0.2


class ReverseAttack(SignSteps):
    """From a random point of the ball, sign steps down the contrastive loss of random views (Mao et al. 2021).

    The loss of a view is InfoNCE: minus the logarithm of how likely the other view is among it and the vectors of the
    network's bank, at temperature 0.2. Each step draws new views, which depend on the image, the seed and the step.

    Parameters
    ----------
    network
        A module from images to unit vectors [N, D] with `negatives` [M, D], or the name of a bundled one;
        `alu.models.contrastive` builds one.
    eps, steps, step_size
        Those of `SignSteps`.
    views
        How many views each step compares, at least 2.
    seed
        The draws depend on the image and on this: the same image gets the same answer, another seed is another draw.

    Examples
    --------
    >>> network = alu.models.contrastive(width=8, code=8)
    >>> purified = alu.purifiers.ReverseAttack(network, steps=1)(images)
    """

    def __init__(
        self, network: nn.Module | str = "cifar10-contrastive", *, eps: float = 16 / 255, steps: int = 40,
        step_size: float = 2 / 255, views: int = 2, seed: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(eps=eps, steps=steps, step_size=step_size)
        if views < 2:
            raise UsageError(f"ReverseAttack compares at least 2 views; it was given {views}.")
        self.network = load(network) if isinstance(network, str) else network
        if not isinstance(getattr(self.network, "negatives", None), Tensor):
            raise UsageError(
                "ReverseAttack needs a network with negatives, unit vectors of other images, such as "
                f"alu.models.contrastive(); {type(self.network).__name__} has none."
            )
        self.views, self.seed = views, seed

    @property
    def traits(self) -> Traits:
        """Random, iterative, and differentiable by a stand-in for the sign."""
        return Traits(stochastic=True, iterative=True, gradient="approximate")

    def begin(self, images: Tensor) -> Tensor:
        """A random point of the ball; of a copy without steps, the image itself."""
        if not self.steps:
            return images
        start = uniform_per_image(digests(images), tuple(images.shape[1:]), self.seed, "reverse")
        return (images + self.eps * start.to(images)).clamp(0.0, 1.0)

    def loss(self, at: Tensor, images: Tensor, number: int) -> Tensor:
        """The mean InfoNCE over ordered pairs of views [N]."""
        chosen = uniform_per_image(digests(images), (self.views, CHOICES), self.seed, "views", number).to(at)
        seen = torch.cat([View.drawn(choice).of(at) for choice in chosen.unbind(1)])
        vectors = self.network(seen).view(self.views, len(at), -1)
        negatives = self.network.negatives
        assert isinstance(negatives, Tensor)
        pairs = [(a, b) for a in range(self.views) for b in range(self.views) if a != b]
        each = [info_nce(vectors[a], vectors[b], negatives.to(at)) for a, b in pairs]
        return torch.stack(each).mean(0)


def info_nce(
    own: Tensor, other: Tensor, negatives: Tensor, same: Tensor | None = None, temperature: float = TEMPERATURE
) -> Tensor:
    """-log exp(own·other/T) / (exp(own·other/T) + Σ exp(own·negative/T)) for each row of unit vectors [N, D].

    `same` [N, M] marks negatives that are none, because they show the same image.
    """
    close = (own * other).sum(1, keepdim=True)
    apart = own @ negatives.T
    if same is not None:
        apart = apart.masked_fill(same, float("-inf"))
    scaled = torch.cat([close, apart], 1) / temperature
    return scaled.logsumexp(1) - scaled[:, 0]
