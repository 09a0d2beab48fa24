"""Neighbourhood: search around the image for a point with another answer; where there is one, do not answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from alu.check import answers, check_logits, evaluating
from alu.decision import Evidence
from alu.detectors.base import Detector
from alu.errors import NoGradientError, UsageError
from alu.purifiers.base import Traits, replace
from alu.rng import digests, uniform_per_image

Visit = Callable[[Tensor, Tensor, Tensor | None], None]


class Neighbourhood(Detector):
    """Flags an image if a point within `radius` (L-inf) of it gets another answer. For rule "abstain".

    A wrong answer that is given has only wrong answers around it, so the attacker had to come that much further: of
    images within eps of a clean one, as many are answered wrongly as the classifier alone gets wrong within
    max(radius, eps - radius), up to what the search overlooks. There is no threshold to calibrate: the score is the
    highest margin of another class that the search finds, and an image is flagged where that is above 0. Calibrating
    (`Defense.calibrate`) stores clean scores for p-values and the size of images.

    Parameters
    ----------
    radius
        How far the search goes from the image.
    steps
        Steps of each search. An image is searched no further once another answer is found.
    restarts
        Searches of each image: the first starts at the image, the others at random points around it.
    targets
        0: each search climbs towards whichever other class is nearest. Otherwise each search is made once for each of
        so many of the likeliest other classes.
    seed
        The seed of random starts, which follow the image.

    Examples
    --------
    >>> check = alu.detectors.Neighbourhood(radius=2 / 255, steps=2)
    >>> alu.Defense(classifier, detector=check, rule="abstain").decide(images).accepted.shape
    torch.Size([4])
    """

    around = "Linf"

    def __init__(
        self, radius: float = 2 / 255, steps: int = 10, restarts: int = 1, targets: int = 0, seed: int = 0
    ) -> None:
        super().__init__()
        if not 0.0 < radius < 1.0:
            raise UsageError(f"Neighbourhood needs a radius above 0 and below 1, such as 2/255; it was given {radius}.")
        if min(steps, restarts) < 1 or targets < 0:
            raise UsageError(
                f"Neighbourhood needs at least 1 step and 1 restart, and 0 targets or more; it was given {steps}, "
                f"{restarts} and {targets}."
            )
        self.radius, self.steps, self.restarts, self.targets, self.seed = radius, steps, restarts, targets, seed

    @property
    def traits(self) -> Traits:
        """A search that an attacker can aim at; random with more than one start."""
        return Traits(stochastic=self.restarts > 1, detector=True, search=True)

    @property
    def fixed(self) -> float:
        """0: the margin at which another class takes over."""
        return 0.0

    def score(self, evidence: Evidence) -> Tensor:
        """The margin of another class at the worst neighbour found [N]; above 0 where the answer changes.

        Its gradient is that of the margin at this neighbour, which moves with the image (straight-through).
        """
        classifier = evidence.classifier
        if classifier is None:
            raise UsageError("Neighbourhood asks the classifier about further images; this evidence has none.")
        own = evidence.post_logits.detach().argmax(1)
        worst, highest = self.search(evidence, own)
        if not torch.is_grad_enabled():
            return highest
        # The value is what the search saw: asked again in another batch, a margin near 0 may change its sign.
        offset = worst - evidence.purified.detach()
        return replace(lead(_logits(classifier, evidence.purified + offset), own), highest)

    def find(self, evidence: Evidence, labels: Tensor, *, stop: bool = True) -> Tensor:
        """For each image the neighbour with the highest margin over its label that the search meets."""
        return self.search(evidence, labels, stop=stop)[0]

    def search(
        self, evidence: Evidence, labels: Tensor, *, stop: bool = True, visit: Visit | None = None
    ) -> tuple[Tensor, Tensor]:
        """For each image the neighbour with the highest margin over its label that the search meets, and that margin.

        With `stop`, as deployed, an image is searched no further once that margin is above 0. `visit` is called with
        each point that all images have reached, the margins there and, but for the last points, their gradient; it
        needs a search that does not stop.
        """
        classifier, images = evidence.classifier, evidence.purified.detach()
        assert classifier is not None
        with torch.inference_mode(False), torch.no_grad(), evaluating(classifier):
            images, labels = images.clone(), labels.clone()
            best, highest = self.nothing_found(images)
            for start, target in self.searches(images, evidence.post_logits.detach(), labels):
                left = ((highest <= 0) | torch.tensor(not stop)).nonzero().flatten()
                at = start[left]
                for size in (*self.sizes, None):
                    if not len(left):
                        break
                    goal = None if target is None else target[left]
                    found = at, best[left], highest[left]
                    at, best[left], highest[left] = self.climb(
                        classifier, images[left], labels[left], goal, found, size, visit
                    )
                    if stop:
                        stays = highest[left] <= 0
                        left, at = left[stays], at[stays]
        return best, highest

    @staticmethod
    def nothing_found(images: Tensor) -> tuple[Tensor, Tensor]:
        """The best neighbour so far, and its margin [N], before any search."""
        return images.clone(), images.new_full((images.shape[0],), -math.inf)

    def climb(
        self, classifier: Callable[[Tensor], Any], images: Tensor, labels: Tensor, target: Tensor | None,
        found: tuple[Tensor, Tensor, Tensor], size: float | Tensor | None, visit: Visit | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        """One step of a search: look at a neighbour, keep it if it is the best so far, and go `size` further uphill.

        `found` is the neighbour, the best so far and its margin; so is what is returned. Without `size` it stays.
        """
        at, best, highest = found
        at = at.detach().requires_grad_(size is not None)
        with torch.enable_grad():
            logits = _logits(classifier, at)
            gradient = None if size is None else self._ascent(logits, at, labels, target)
        at = at.detach()
        ahead = lead(logits.detach(), labels).to(highest)
        if visit is not None:
            visit(at, ahead, gradient if target is None else None)
        better = ahead > highest
        best = torch.where(better.view(-1, 1, 1, 1), at, best)
        highest = torch.where(better, ahead, highest)
        if gradient is not None and size is not None:
            at = self._near(at + size * gradient.sign(), images)
        return at, best, highest

    def searches(self, images: Tensor, logits: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Where each search starts, and the class that it climbs towards; None for whichever is nearest."""
        others = logits.scatter(1, labels[:, None], -math.inf).argsort(1, descending=True)
        for restart in range(self.restarts):
            start = images
            if restart:
                noise = uniform_per_image(digests(images), tuple(images.shape[1:]), self.seed, "neighbour", restart)
                start = self._near(images + self.radius * noise.to(images), images)
            for rank in range(min(self.targets, others.shape[1] - 1)):
                yield start, others[:, rank]
            if not self.targets:
                yield start, None

    @property
    def sizes(self) -> list[float]:
        """Of each step: the first goes to the edge, where most other answers are; the next become ever shorter."""
        return [self.radius, *(self.radius * (1 - step / self.steps) for step in range(1, self.steps))]

    def _near(self, images: Tensor, centre: Tensor) -> Tensor:
        """The images, moved back into the ball and into [0, 1]."""
        return (centre + (images - centre).clamp(-self.radius, self.radius)).clamp(0.0, 1.0)

    @staticmethod
    def _ascent(logits: Tensor, at: Tensor, labels: Tensor, target: Tensor | None) -> Tensor:
        if target is None:
            margin = lead(logits, labels)
        else:
            margin = (logits.gather(1, target[:, None]) - logits.gather(1, labels[:, None])).squeeze(1)
        if not margin.requires_grad:
            raise NoGradientError(
                "Neighbourhood searches along the classifier's gradient, and this classifier has none. Use "
                "alu.detectors.Confidence, or a classifier in torch."
            )
        (gradient,) = torch.autograd.grad(margin.sum(), at)
        return gradient


def lead(logits: Tensor, labels: Tensor) -> Tensor:
    """Highest other logit minus the label's [N]; above 0 where the answer is another class."""
    own = logits.gather(1, labels[:, None]).squeeze(1)
    return logits.scatter(1, labels[:, None], -math.inf).amax(1) - own


def _logits(classifier: object, images: Tensor) -> Tensor:
    with torch.autocast(images.device.type, enabled=False):
        return check_logits(answers(classifier, images), images.shape[0], "The classifier").to(images.device)  # type: ignore[arg-type]
