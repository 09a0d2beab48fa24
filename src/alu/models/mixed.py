"""Mixed: a standard and a robust classifier as one; where the robust one is unsure, the standard one answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alu.check import answers, check_images, check_labels, check_logits, evaluating
from alu.errors import InputError, UsageError
from alu.progress import Watch, silent

SETTINGS = ("alpha", "scale", "shift", "power", "sharpen")
SCALES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
SHIFTS = (-1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5)
POWERS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
"""What `Mixed.fit` chooses from: every scale with every shift and every power."""
FEWEST = 50
"""So many attacked images must still be answered correctly: a quantile of fewer says little."""
LEADS = (0.01, 0.95)
"""Between these the lead in g must lie that decides: below it rounding would, above it g is all but certain."""
SHARPEN = 100.0
"""Factor of the standard logits: its answer is all but certain, as the rule of the mixture assumes."""


class Mixed(nn.Module):
    """log(alpha g + (1 - alpha) f), f the standard and g the robust probabilities (MixedNUTS, Bai et al. 2024).

    g is the softmax of the robust logits z, made more or less sure: scale sign(u) abs(u)^power with u = GELU(LN(z) +
    shift), where LN takes away mean and deviation over classes. Where g leads by (1 - alpha) / alpha or more, the
    standard classifier cannot change the answer. It is an ordinary module, without randomness and with exact gradients;
    but where its standard part is certain that gradient vanishes, so attacks must look at the parts too
    (`alu.attacks.Flatten`).

    Parameters
    ----------
    standard, robust
        Two modules from [0, 1] images to logits of the same classes: one that is right more often, and one that
        withstands attacks.
    alpha
        The weight of the robust one, at least 0.5 and below 1.
    scale, shift, power
        How the robust logits are made more or less sure; the power is at least 1.
    sharpen
        Factor of the standard logits before their softmax.

    Examples
    --------
    >>> parts = alu.models.load("cifar10-standard"), alu.models.load("cifar10-at")
    >>> mixed = alu.models.Mixed(*parts, alpha=0.8, scale=2.0, shift=0.0, power=6.0)
    >>> logits = mixed(images)
    """

    mixture = True
    """Evaluations read this as a trait: the parts must be attacked too."""
    alpha: Tensor
    scale: Tensor
    shift: Tensor
    power: Tensor
    sharpen: Tensor

    def __init__(
        self, standard: nn.Module, robust: nn.Module, *, alpha: float, scale: float, shift: float, power: float,
        sharpen: float = SHARPEN,
    ) -> None:  # fmt: skip
        super().__init__()
        for name, part in (("standard", standard), ("robust", robust)):
            if not isinstance(part, nn.Module):
                raise UsageError(f"Mixed needs a module as its {name} classifier; it was given {type(part).__name__}.")
        if not 0.5 <= alpha < 1.0:
            raise UsageError(
                f"Mixed needs alpha of at least 0.5 and below 1; it was given {alpha}. Below 0.5 the robust classifier "
                "could never overrule the standard one. Mixed.fit chooses it."
            )
        if not (scale > 0.0 and power >= 1.0 and sharpen > 0.0):
            raise UsageError(
                f"Mixed needs scale and sharpen above 0 and a power of at least 1; it was given {scale}, {sharpen} and "
                f"{power}."
            )
        self.standard, self.robust = standard, robust
        # Buffers, so that a state_dict and the hash in a saved defence carry them.
        for name, value in zip(SETTINGS, (alpha, scale, shift, power, sharpen), strict=True):
            self.register_buffer(name, torch.tensor(float(value)))

    def forward(self, images: Tensor) -> Tensor:
        """The logarithm of the mixed probabilities [N, classes]."""
        standard, robust = self.parts(images)
        return self.joined(self.sharpen.to(standard) * standard, self.reshaped(robust))

    def parts(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The logits of both classifiers, [N, classes] each."""
        standard, robust = (logits_of(part, images) for part in (self.standard, self.robust))
        check_same(standard, robust)
        return standard, robust

    def reshaped(self, robust: Tensor) -> Tensor:
        """The logits of g [N, classes], from the robust ones."""
        return reshape(robust, self.scale.to(robust), self.shift.to(robust), self.power.to(robust))

    def joined(self, standard: Tensor, robust: Tensor) -> Tensor:
        """The logarithm of the weighted mean of two softmaxes [N, classes]."""
        alpha = self.alpha.to(robust)
        return torch.logaddexp((-alpha).log1p() + standard.log_softmax(1), alpha.log() + robust.log_softmax(1))

    @property
    def surrogates(self) -> tuple[nn.Module, ...]:
        """What an attacker differentiates in its place: the mixture without sharpening, also with the robust logits as
        they are, and each part."""
        return Blunt(self), Plain(self), self.standard, self.robust

    @classmethod
    def fit(
        cls, standard: nn.Module, robust: nn.Module, images: Tensor, labels: Tensor, attack: Callable[..., Tensor], *,
        keep: float = 0.95, rounds: int = 3, sharpen: float = SHARPEN, scales: Sequence[float] = SCALES,
        shifts: Sequence[float] = SHIFTS, powers: Sequence[float] = POWERS, batch_size: int = 250,
        watch: Watch = silent,
    ) -> Self:  # fmt: skip
        """The mixture that lets the standard classifier correct as many mistakes as possible.

        The robust classifier is attacked. Of the images that it still gets right, a share `keep` must keep a lead in g
        that the standard classifier cannot overturn; that sets alpha. Of all ways to reshape the logits, the one is
        taken that leaves the fewest mistakes on clean images out of the standard classifier's reach. Where the margin
        of the logits is least, the lead in g need not be: so the chosen g is attacked in turn, and the choice is made
        again from all attacked images.

        Parameters
        ----------
        standard, robust
            The two classifiers.
        images, labels
            Calibration images [N, C, H, W] in [0, 1] that neither was trained on, and their classes.
        attack
            A search for the smallest margin of a model, such as `alu.attacks.CWLinf(steps=20)`.
        keep
            The share of images right under attack that must stay out of the standard classifier's reach.
        rounds
            How often at most what was chosen is attacked; fewer if nothing changes.
        sharpen
            Factor of the standard logits.
        scales, shifts, powers
            What to choose from.
        batch_size, watch
            Images that are classified together; and a function that is called with (current work, images done, images
            in all).

        Examples
        --------
        >>> robust, attack = alu.models.load("cifar10-at"), alu.attacks.CWLinf(steps=1)
        >>> test = alu.data.sample("calibration").draw(100)
        >>> mixed = alu.models.Mixed.fit(classifier, robust, test.images, test.labels, attack, rounds=1)
        """
        check_images(images, "Mixed.fit")
        if not 0.0 < keep < 1.0 or rounds < 0:
            raise UsageError(
                f"Mixed.fit needs a share to keep between 0 and 1 and at least 0 rounds; it was given {keep} and "
                f"{rounds}."
            )
        with evaluating(standard, robust):
            check_same(*(batched(part, images[:1], batch_size) for part in (standard, robust)))
            clean = batched(robust, images, batch_size)
            check_labels(labels, len(images), clean.shape[1], "Mixed.fit")
            report = partial(watch, "Attacking the robust classifier")
            attacked = [batched(robust, attack(robust, images, labels, watch=report), batch_size)]
            chosen = choose(clean, attacked, labels, keep, scales, shifts, powers)
            for turn in range(rounds):
                mixed, before = cls(standard, robust, sharpen=sharpen, **chosen), chosen
                left = right(attacked, labels).nonzero().flatten()
                report = partial(watch, f"Attacking what was chosen, round {turn + 1}")
                found = attack(
                    Reshaped(mixed), images[left], labels[left], watch=report, numbers=left.tolist()
                )  # fmt: skip
                attacked.append(attacked[0].index_copy(0, left, batched(robust, found, batch_size)))
                chosen = choose(clean, attacked, labels, keep, scales, shifts, powers)
                if chosen == before:
                    break
        return cls(standard, robust, sharpen=sharpen, **chosen)


class Reshaped(nn.Module):
    """g alone."""

    def __init__(self, mixed: Mixed) -> None:
        super().__init__()
        self.mixed = mixed

    def forward(self, images: Tensor) -> Tensor:
        """The logits of g [N, classes]."""
        return self.mixed.reshaped(logits_of(self.mixed.robust, images))


class Blunt(nn.Module):
    """A mixture whose standard part is not sharpened: the attacker's gradient through it does not vanish."""

    def __init__(self, mixed: Mixed) -> None:
        super().__init__()
        self.mixed = mixed

    def forward(self, images: Tensor) -> Tensor:
        """The logarithm of the mixed probabilities [N, classes]."""
        standard, robust = self.mixed.parts(images)
        return self.mixed.joined(standard, self.mixed.reshaped(robust))


class Plain(Blunt):
    """The same with the robust logits as they are."""

    def forward(self, images: Tensor) -> Tensor:
        """The logarithm of the mixed probabilities [N, classes]."""
        return self.mixed.joined(*self.mixed.parts(images))


def choose(
    clean: Tensor, attacked: Sequence[Tensor], labels: Tensor, keep: float, scales: Sequence[float] = SCALES,
    shifts: Sequence[float] = SHIFTS, powers: Sequence[float] = POWERS,
) -> dict[str, float]:  # fmt: skip
    """alpha, scale, shift and power, from the robust logits of clean and of attacked images [N, classes]; of several
    attacked ones the worst counts."""
    stands, wrong = right(attacked, labels), clean.argmax(1) != labels
    if int(stands.sum()) < FEWEST:
        raise InputError(
            f"Mixed.fit needs at least {FEWEST} images that the robust classifier gets right under attack; of the "
            f"{len(labels)} given it gets {int(stands.sum())} right. Give it more images, or a more robust classifier."
        )
    fewest, chosen = len(labels) + 1, None
    for scale, shift, power in product(scales, shifts, powers):
        leads = [ahead(reshape(logits, scale, shift, power).softmax(1), labels) for logits in attacked]
        lead = float(torch.stack(leads).amin(0)[stands].double().quantile(1 - keep))
        # A mistake that leads the true class by less is corrected wherever the standard classifier is right.
        g = reshape(clean, scale, shift, power).softmax(1)
        behind = g.amax(1) - g.gather(1, labels[:, None]).squeeze(1)
        lost = int((behind[wrong] >= lead).sum())
        if LEADS[0] <= lead <= LEADS[1] and lost < fewest:
            fewest, chosen = lost, {"alpha": 1 / (1 + lead), "scale": scale, "shift": shift, "power": power}
    if chosen is None:
        raise InputError(
            "Mixed.fit found no scale, shift and power with which the images that are right under attack keep a lead. "
            "Keep a smaller share, or let it choose from more scales, shifts and powers."
        )
    return chosen


def reshape(
    logits: Tensor, scale: float | Tensor, shift: float | Tensor, power: float | Tensor
) -> Tensor:  # fmt: skip
    """scale sign(u) |u|^power with u = GELU(LN(logits) + shift) [N, classes]."""
    u = F.gelu(F.layer_norm(logits, logits.shape[1:]) + shift)
    return scale * u.sign() * u.abs().pow(power)


def right(attacked: Sequence[Tensor], labels: Tensor) -> Tensor:
    """Whether every one of these logits answers correctly [N]."""
    return torch.stack([logits.argmax(1) == labels for logits in attacked]).all(0)


def ahead(probabilities: Tensor, labels: Tensor) -> Tensor:
    """The label's probability minus the highest other one [N]."""
    own = probabilities.gather(1, labels[:, None]).squeeze(1)
    return own - probabilities.scatter(1, labels[:, None], float("-inf")).amax(1)


def logits_of(part: nn.Module, images: Tensor) -> Tensor:
    """The logits of one classifier, checked."""
    return check_logits(answers(part, images), images.shape[0], "A classifier inside Mixed")


def check_same(standard: Tensor, robust: Tensor) -> None:
    """Refuse logits of different numbers of classes."""
    if standard.shape[1] != robust.shape[1]:
        raise InputError(
            f"Mixed needs two classifiers of the same classes; the standard one has {standard.shape[1]} and the robust "
            f"one {robust.shape[1]}."
        )


@torch.no_grad()
def batched(part: nn.Module, images: Tensor, batch_size: int) -> Tensor:
    """The logits of many images."""
    return torch.cat([logits_of(part, some) for some in torch.split(images, batch_size)])
