"""Smoothed: a classifier that answers by majority under Gaussian noise, and proves how far its answers hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor, nn

from alu.check import answers, check_images, check_logits, evaluating
from alu.errors import UsageError
from alu.progress import Count, at_once
from alu.rng import derived_seed, digests, normal_per_image
from alu.stats import binomial_lower

NO_ANSWER = -1
LOOKS = (50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
"""After so many samples a certificate that was asked for at one radius is looked at; each look spends its part of
alpha, so that all of them together are wrong with probability at most alpha."""
DRAWN = 500
"""Noise is drawn for so many copies at once (fewer of large images), however many are classified together: the numbers
of an image must not depend on that."""
ON_CPU = 100
"""Copies that a CPU classifies together: their features stay in its cache, which saves a third of the time of 500."""


@dataclass(frozen=True)
class Certificates:
    """What `Smoothed.certify` proved: `labels, radii = smoothed.certify(images)`.

    Parameters
    ----------
    labels
        The certified class of each image [N]; -1 for no answer.
    radii
        Every image within this L2 distance gets the same answer [N]; 0 where there is none.
    samples
        Noisy copies that were classified for each image [N].

    Examples
    --------
    >>> labels, radii = alu.models.Smoothed(classifier, sigma=0.1).certify(images, n=50, n0=10)
    """

    labels: Tensor
    radii: Tensor
    samples: Tensor

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.labels, self.radii))

    def __len__(self) -> int:
        return len(self.labels)


class Smoothed(nn.Module):
    """The classifier's majority vote under noise N(0, sigma² I) (Cohen et al. 2019).

    `certify` proves a radius for each image: every image within it (L2) gets this answer, except with probability
    `alpha`. That is no promise that the answer is right. Called as a module it returns the logarithm of the mean class
    probabilities over `draws` noisy copies, which is random: attacks on it must average over draws.

    Parameters
    ----------
    classifier
        A module, or any callable, from [0, 1] images [N, C, H, W] to logits; trained on such noise, or behind a
        denoiser. Noisy images are not clipped.
    sigma
        Standard deviation of the noise, in units of the [0, 1] range.
    draws
        Noisy copies in a call of the module.
    seed
        The seed of the noise, which follows the image. Keep it to yourself where the model is deployed: who knows the
        draws can look for an image on which they are unlucky.

    Examples
    --------
    >>> smoothed = alu.models.Smoothed(classifier, sigma=0.25, draws=8)
    >>> smoothed(images).shape
    torch.Size([4, 10])
    """

    stochastic = True
    """Attacks read this as a trait: gradients must be averaged, and answers counted over several draws."""

    def __init__(
        self, classifier: Callable[[Tensor], Any], sigma: float = 0.25, draws: int = 32, seed: int = 0
    ) -> None:
        super().__init__()
        if not sigma > 0.0:
            raise UsageError(f"Smoothed needs noise: sigma above 0, such as 0.25; it was given {sigma}.")
        if draws < 1:
            raise UsageError(f"Smoothed needs at least 1 draw; it was given {draws}.")
        self.classifier, self.sigma, self.draws, self.seed = classifier, sigma, draws, seed

    def forward(self, images: Tensor) -> Tensor:
        """The logarithm of the mean class probabilities [N, classes]."""
        check_images(images, "Smoothed")
        shape = (self.draws, *images.shape[1:])
        noise = normal_per_image(images, shape, self.seed, "smoothed")
        noisy = (images[:, None] + self.sigma * noise).flatten(0, 1)
        each = self._logits(noisy).log_softmax(1).view(len(images), self.draws, -1)
        return each.logsumexp(1) - torch.tensor(float(self.draws)).log().to(each)

    @torch.no_grad()
    def certify(
        self, images: Tensor, *, n: int = 10_000, n0: int = 100, alpha: float = 0.001, radius: float | None = None,
        batch_size: int | None = None, watch: Count | None = None,
    ) -> Certificates:  # fmt: skip
        """Labels and certified L2 radii.

        Parameters
        ----------
        images
            The images [N, C, H, W] in [0, 1].
        n, n0
            Samples that prove the radius, and others before them that choose the class.
        alpha
            The probability with which a certificate may be wrong.
        radius
            Only ask whether the radius is at least this: sampling stops as soon as that is settled, and images for
            which it is not proven get no answer. The radii returned are then those proven so far.
        batch_size
            Noisy copies that are classified together; at most 500; by default 100 on a CPU, else 500.
        watch
            Called with (images done, images in all).

        Examples
        --------
        >>> labels, radii = alu.models.Smoothed(classifier, sigma=0.1).certify(images, n=100, n0=10, radius=0.01)
        """
        check_images(images, "Smoothed.certify")
        self._refuse(n, n0, alpha, radius)
        together = batch_size or (ON_CPU if images.device.type == "cpu" else DRAWN)
        labels = torch.full((len(images),), NO_ANSWER)
        radii, samples = torch.zeros(len(images)), torch.zeros(len(images), dtype=torch.int64)
        with evaluating(self, self.classifier):
            for number, (image, name) in enumerate(zip(images, digests(images), strict=True)):
                found = self._certified(image, name, n, n0, alpha, radius, together)
                labels[number], radii[number], samples[number] = found
                if watch is not None:
                    watch(number + 1, len(images))
        return Certificates(labels.to(images.device), radii.to(images.device), samples)

    def largest_radius(self, n: int, alpha: float = 0.001) -> float:
        """The largest radius that n samples can prove: that of an image on which all of them agree."""
        return self._radius(n, n, alpha)

    def _certified(
        self, image: Tensor, name: str, n: int, n0: int, alpha: float, radius: float | None, batch_size: int
    ) -> tuple[int, float, int]:
        """Label, radius and number of samples of one image."""
        stream = torch.Generator(device="cpu").manual_seed(derived_seed(self.seed, "certificate", name))
        label = int(self._votes(image, n0, stream, batch_size).argmax())
        agree, drawn, proven = 0, 0, 0.0
        for until, spent in looks(n, alpha) if radius is not None else [(n, alpha)]:
            agree += int(self._votes(image, until - drawn, stream, batch_size)[label])
            drawn = until
            proven = max(proven, self._radius(agree, drawn, spent))
            if radius is not None and (proven >= radius or self._hopeless(agree, drawn, n, alpha, radius)):
                break
        settled = proven > 0.0 if radius is None else proven >= radius
        return label if settled else NO_ANSWER, proven if settled else 0.0, n0 + drawn

    def _radius(self, agree: int, drawn: int, alpha: float) -> float:
        """The radius that follows from so many agreeing samples; 0 where no majority is proven."""
        low = binomial_lower(agree, drawn, alpha)
        return self.sigma * NormalDist().inv_cdf(low) if low > 0.5 else 0.0

    def _hopeless(self, agree: int, drawn: int, n: int, alpha: float, radius: float) -> bool:
        """Whether sampling on is not worth it: even an agreement far above the one seen would not do.

        Giving up costs no promise: the image gets no answer.
        """
        disagree = drawn - agree
        likely = 1.0 - binomial_lower(disagree, drawn, 1e-4)
        return self._radius(agree + round(likely * (n - drawn)), n, alpha) < radius

    def _votes(self, image: Tensor, count: int, stream: torch.Generator, batch_size: int) -> Tensor:
        """How many of `count` noisy copies each class gets [classes]."""
        votes: Tensor | None = None
        drawn = at_once(tuple(image.shape), DRAWN)
        for start in range(0, count, drawn):
            many = min(drawn, count - start)
            noise = torch.empty((many, *image.shape)).normal_(generator=stream).to(image)
            for part in torch.split(noise, batch_size):
                logits = self._logits(image[None] + self.sigma * part)
                one = torch.bincount(logits.argmax(1).cpu(), minlength=logits.shape[1])
                votes = one if votes is None else votes + one
        assert votes is not None
        return votes

    def _logits(self, noisy: Tensor) -> Tensor:
        with torch.autocast(noisy.device.type, enabled=False):
            return check_logits(answers(self.classifier, noisy), len(noisy), "The smoothed classifier").to(noisy.device)

    def _refuse(self, n: int, n0: int, alpha: float, radius: float | None) -> None:
        if min(n, n0) < 1 or not 0.0 < alpha < 1.0:
            raise UsageError(
                f"Smoothed.certify needs n and n0 of at least 1 and alpha between 0 and 1; it was given {n}, {n0} and "
                f"{alpha}."
            )
        if radius is None:
            return
        if not radius > 0.0:
            raise UsageError(f"Smoothed.certify needs a radius above 0; it was given {radius}.")
        *_, (_, spent) = looks(n, alpha)
        largest = self._radius(n, n, spent)
        if largest < radius:
            raise UsageError(
                f"{n:,} samples at sigma {self.sigma:g} and alpha {alpha:g} can prove a radius of at most "
                f"{largest:.3f}, and {radius:g} was asked for. Take more samples, or a larger sigma."
            )


def looks(n: int, alpha: float) -> Iterator[tuple[int, float]]:
    """After how many samples to look, and the part of alpha that each look spends: the last one half, the others the
    rest in equal parts."""
    early = [count for count in LOOKS if count < n]
    for count in early:
        yield count, alpha / 2 / len(early)
    yield n, alpha / 2 if early else alpha
