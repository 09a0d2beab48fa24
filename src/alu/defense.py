"""Defense: classifier, purifier, detector and rule as one nn.Module, the same for its users and its attackers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace as replace_fields
from pathlib import Path
from typing import Any, Literal, Self, get_args

import torch
from torch import Tensor, nn

from alu.assembly import check_suspicious, refuse_misfits, refuse_without_limits
from alu.check import answers, check_images, check_logits, evaluating, full_precision, look_like_probabilities, warn
from alu.decision import Decision, Evidence, Findings, RuleName, find_rule
from alu.detectors.base import Detection, Detector
from alu.detectors.calibration import calibrate
from alu.detectors.residual import Residual
from alu.errors import UsageError, check_choice
from alu.pixels import refuse_none, refuse_other_size
from alu.progress import Count
from alu.purifiers.base import GRAD_MODES, GradMode, Purification, Purifier, Traits, replace
from alu.purifiers.filters import Identity

Reference = Literal["input", "reconstruction"]
REFERENCES = get_args(Reference)
Classifier = Callable[[Tensor], Any]
Batches = Iterable[Tensor]


class Defense(nn.Module):
    """A classifier that purifies its input, compares the logits before and after, and then answers.

    Methods take `images` [N, C, H, W] in [0, 1], `batch_size` of them at a time, or the `evidence` made from them.

    Parameters
    ----------
    classifier
        A module, or any callable, from [0, 1] images [N, C, H, W] to logits [N, classes].
    purifier, detector
        What makes cleaner images (default: `Identity`), and what flags suspicious ones (only "purified" works without).
    rule
        "alu" (argmax Δ where flagged, else argmax Π), "purified" (argmax Π), "abstain" (argmax Π, none where flagged),
        or "graded" (argmax Π' where nothing is found, argmax Π where suspicious or noisy, argmax Δ where attacked).
    reference
        What Π' is the logits of: the "input", or the purifier's "reconstruction".
    grad_mode
        Which gradient `forward` has; the answer is the same in every mode.
    eps
        The largest change of a pixel that an attack makes; images from which more is purified away are corrupted.
    suspicious
        The p-value up to which an image that is not flagged is suspicious; none is where it is below `false_alarm`.

    Examples
    --------
    >>> alu.Defense(classifier, alu.purifiers.Blur(0.5), rule="purified")(images).shape
    torch.Size([4, 10])
    """

    shape_: Tensor

    def __init__(
        self, classifier: Classifier, purifier: Purifier | None = None, detector: Detector | None = None,
        rule: RuleName = "alu", reference: Reference = "input", grad_mode: GradMode = "unrolled", eps: float = 8 / 255,
        suspicious: float = 0.02,
    ) -> None:  # fmt: skip
        super().__init__()
        if not callable(classifier):
            raise UsageError(f"Defense needs a classifier it can call; {type(classifier).__name__} is not callable.")
        self.rule_ = find_rule(rule)
        check_choice("reference", reference, REFERENCES)
        purifier = Identity() if purifier is None else purifier
        refuse_misfits(self.rule_, purifier, detector, reference)
        check_choice("gradient mode", grad_mode, GRAD_MODES)
        self.classifier, self.purifier, self.detector = classifier, purifier, detector
        self.reference, self.grad_mode, self.suspicious = reference, grad_mode, check_suspicious(suspicious)
        self.residual = Residual(eps)  # the second test
        self.classes: tuple[str, ...] = ()
        """Names of the classes, where they are known."""
        self.register_buffer("shape_", torch.empty(0, dtype=torch.int64))
        self._warned = False
        if not any(True for _ in self.parameters()):
            # Other tools read the device of the first parameter and fail if there is none.
            self.anchor = nn.Parameter(torch.zeros(()), requires_grad=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width of the images it was calibrated on; empty before."""
        return tuple(self.shape_.tolist())

    @property
    def rule(self) -> str:
        """The rule's name."""
        return self.rule_.name

    @property
    def traits(self) -> Traits:
        """What an attacker has to deal with."""
        detecting = self.rule_.needs_detector
        own = self.purifier.traits if self.detector is None else self.purifier.traits.joined(self.detector.traits)
        random = own.stochastic or bool(getattr(self.classifier, "stochastic", False))
        mixture = bool(getattr(self.classifier, "mixture", False))
        return replace_fields(
            own, detector=detecting, search=own.search and detecting, stochastic=random, mixture=mixture
        )

    def logits(self, images: Tensor) -> Tensor:
        """The bare classifier's logits [N, classes].

        Examples
        --------
        >>> logits = defense.logits(images)
        """
        who = f"The classifier {type(self.classifier).__name__}"
        with full_precision(images):
            logits = check_logits(answers(self.classifier, images), images.shape[0], who).to(images.device)
        if not self._warned and look_like_probabilities(logits):
            self._warned = True
            warn(
                f"{who} seems to return probabilities: every row is non-negative and sums to 1. "
                "Logit changes need raw logits; remove the last softmax."
            )
        return logits

    def evidence(self, images: Tensor, output: Purification | None = None) -> Evidence:
        """Purified images and the logits before and after, with the gradient of `grad_mode`.

        Parameters
        ----------
        output : Purification, optional
            What the purifier gave for these images, where that is known already: two readings can share it.

        Examples
        --------
        >>> purified = defense.evidence(images).purified
        """
        check_images(images, "Defense")
        refuse_none(images.shape)
        # Read first: leaving inference mode switches gradients on.
        wants_gradient = torch.is_grad_enabled()
        with evaluating(self, self.classifier), torch.inference_mode(False), full_precision(images):
            images = images.clone() if images.is_inference() else images
            with torch.set_grad_enabled(wants_gradient):
                compared = self.reference == "reconstruction"
                if type(self.purifier) is Identity:  # a second pass would give the same logits
                    logits = self.logits(images)
                    return Evidence(images, images, logits, logits, self.classifier)
                if output is None:
                    output = self.purifier.purify(images, self.grad_mode, reconstruct=compared)
                before = output.reconstruction if compared and output.reconstruction is not None else images
                logits_before, logits_after = self.logits(before), output.averaged(self.logits)
                return Evidence(images, output.purified, logits_before, logits_after, self.classifier)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of the deployed answer [N, classes]: Π, Δ or, with rule "graded", Π', row by row.

        Examples
        --------
        >>> torch.equal(defense(images).argmax(1), defense.decide(images).label)
        True
        """
        refuse_other_size(self.shape, images.shape)
        answer = self.answer(self.evidence(images))
        if self.grad_mode == "blind" and torch.is_grad_enabled() and images.requires_grad:
            with evaluating(self.classifier):
                return replace(self.logits(images), answer.detach())
        return answer

    @torch.no_grad()
    def decide(self, images: Tensor, batch_size: int = 100) -> Decision:
        """The deployed answer for each image, with what it was based on.

        Examples
        --------
        >>> defense.decide(images).flagged.shape
        torch.Size([4])
        """
        check_images(images, "Defense")
        refuse_other_size(self.shape, images.shape)
        starts = range(0, max(1, len(images)), batch_size)
        return Decision.join([self.judge(self.evidence(images[start : start + batch_size])) for start in starts])

    def judge(self, evidence: Evidence) -> Decision:
        """The decision that follows from this evidence: the second half of `decide`.

        Examples
        --------
        >>> decision = defense.judge(defense.evidence(images))
        """
        detection = self._detected(evidence)
        findings = self._findings(evidence, detection)
        return Decision(
            *self.rule_.decide(evidence, findings), detection.flagged, detection.score, detection.p_value,
            findings.state, evidence.pre_logits, evidence.post_logits, evidence.purified,
        )  # fmt: skip

    def answer(self, evidence: Evidence) -> Tensor:
        """The logits that the rule answers with [N, classes]; what `forward` returns for this evidence.

        Examples
        --------
        >>> logits = defense.answer(defense.evidence(images))
        """
        if self.rule_.uses_flags:
            return self.rule_.logits(evidence, self._findings(evidence, self._detected(evidence)))
        if self.rule_.rejects and self.detector is not None:
            self.detector.require_calibration()
        # Whatever the detector finds, the logits are the same, and a search costs far more than they do.
        return self.rule_.logits(evidence, Findings.none(evidence.post_logits))

    def _findings(self, evidence: Evidence, detection: Detection) -> Findings:
        """What both tests say together."""
        return Findings.of(detection.flagged, detection.p_value <= self.suspicious, *self.residual.test(evidence))

    def _detected(self, evidence: Evidence) -> Detection:
        """The detector's result; NaN and no flag if there is none, or one that is neither needed nor calibrated."""
        detector = self.detector
        if detector is not None and (self.rule_.needs_detector or detector.calibrated):
            return detector.test(evidence)
        count, device = len(evidence), evidence.post_logits.device
        unknown = torch.full((count,), float("nan"), dtype=torch.float64, device=device)
        return Detection(unknown, unknown, torch.zeros(count, dtype=torch.bool, device=device))

    @torch.no_grad()
    def calibrate(self, images: Tensor | Batches, batch_size: int = 100, watch: Count | None = None) -> Defense:
        """Set the threshold from clean images that nothing was trained on, or batches of them; returns itself.

        Parameters
        ----------
        watch
            Called with (images done, images in all); in all 0 for batches.

        Examples
        --------
        >>> calibrated = defense.calibrate(alu.data.sample("calibration").images[:40])
        """
        total = 0
        if isinstance(images, Tensor):
            check_images(images, "Defense.calibrate")
            total = len(images)
            if self.detector is not None:
                self.detector.refuse_too_few(total, "")
            images = torch.split(images, batch_size)
        return self._calibrated((self.evidence(batch) for batch in images), watch, total)

    def calibrate_on(self, evidence: Evidence) -> Defense:
        """Calibrate from the evidence of clean images, where it has already been computed; returns itself.

        Examples
        --------
        >>> again = defense.calibrate_on(defense.evidence(alu.data.sample("calibration").images[:40]))
        """
        return self._calibrated([evidence])

    def _calibrated(self, parts: Iterable[Evidence], watch: Count | None = None, total: int = 0) -> Defense:
        self.shape_ = torch.tensor(calibrate(self.classifier, self.detector, self.residual, parts, watch, total))
        refuse_without_limits(self.rule_, self.purifier, self.residual, self.shape)
        return self

    def with_rule(self, rule: RuleName, suspicious: float | None = None) -> Defense:
        """A defence with another rule, made of the same parts and calibrated if this one is.

        Parameters
        ----------
        rule, suspicious
            The other rule, and the other p-value up to which an image is suspicious; None keeps it.

        Examples
        --------
        >>> defense.with_rule("graded").rule
        'graded'
        """
        settings = (self.reference, self.grad_mode, self.residual.eps)
        width = self.suspicious if suspicious is None else suspicious
        other = Defense(self.classifier, self.purifier, self.detector, rule, *settings, width)
        other.residual, other.shape_, other.classes = self.residual, self.shape_, self.classes
        refuse_without_limits(other.rule_, other.purifier, other.residual, other.shape)
        return other

    def save(self, path: Path | str, factory: str | None = None) -> None:
        """Write a folder from which `Defense.load` reads a defence that makes equal decisions.

        Parameters
        ----------
        path
            The folder.
        factory
            For a classifier of your own, the function that makes it, "module:function", or its name, "hf:FOLDER".

        Examples
        --------
        >>> defense.save(folder / "my-defense")
        """
        from alu.saving import save

        save(self, Path(path), factory)

    @staticmethod
    def load(path: Path | str, classifier: Classifier | None = None, *, trust: bool = False) -> Defense:
        """Read a saved defence; the weights of its classifier must be the ones it was calibrated with.

        Parameters
        ----------
        path
            A folder that `save` wrote.
        classifier
            The classifier, unless it is a bundled one, which is rebuilt.
        trust
            Whether code that the folder names may be imported, which runs it: the function that makes the classifier,
            and a purifier or detector from outside the package.

        Examples
        --------
        >>> defense.save(folder / "saved")
        >>> again = alu.Defense.load(folder / "saved")
        """
        from alu.saving import read

        arguments, limits, shape, classes = read(Path(path), classifier, trust)
        defense = Defense(**arguments)
        defense.residual.load_state_dict(limits)
        defense.shape_, defense.classes = torch.tensor(shape, dtype=torch.int64), classes
        refuse_without_limits(defense.rule_, defense.purifier, defense.residual, defense.shape)
        return defense

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move or convert all parts; a missing device raises an error that says so."""
        try:
            super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        except (AssertionError, RuntimeError, NotImplementedError) as error:  # the error depends on the device
            reason = str(error).strip().split("\n")[0].rstrip(".")
            raise UsageError(f"This defence cannot be moved there: {reason}. Choose another device.") from error
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *rest: object) -> None:
        """Give the shape the length it was saved with."""
        if f"{prefix}shape_" in state_dict:
            self.shape_ = torch.empty_like(state_dict[f"{prefix}shape_"])
        super()._load_from_state_dict(state_dict, prefix, *rest)


@torch.no_grad()
def batched_logits(classifier: Classifier, images: Tensor, batch_size: int = 100) -> Tensor:
    """The bare classifier's logits for any number of images [N, classes]."""
    with evaluating(classifier):
        starts = range(0, len(images), batch_size)
        parts = [answers(classifier, images[start : start + batch_size]) for start in starts]
    return torch.cat([torch.as_tensor(part, device=images.device) for part in parts])
