"""What every defence promises, whatever it is made of."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from alu import Defense, Outcome
from alu.attacks import PGD
from alu.check import AluWarning
from alu.decision import RULES, Evidence
from alu.defense import batched_logits
from alu.detectors import LogitShift
from alu.errors import InputError, NotFittedError, StorageError, UntrustedError, UsageError
from alu.models import resnet18
from alu.purifiers import AntiAdversary, Blur, Identity, LatentVAE
from alu.state import State
from alu.training.recipes import seeded
from tests.contracts.parts import DETECTORS, PURIFIERS, LinearClassifier, images_like, small_vae

SHAPE = (3, 32, 32)


def make(
    purifier: str = "blur",
    detector: str = "logit shift",
    rule: str = "alu",
    reference: str = "input",
    classes: int = 10,
) -> Defense:
    defense = Defense(
        LinearClassifier(SHAPE, classes), PURIFIERS[purifier](SHAPE), DETECTORS[detector](), rule, reference
    )
    return defense.calibrate(images_like(120, SHAPE, seed=1))


@pytest.mark.parametrize("rule", list(RULES))
@pytest.mark.parametrize("purifier", ["identity", "blur", "pca", "vae gd", "vae adam", "vae sampled", "chain"])
def test_forward_and_decide_are_one_path(purifier: str, rule: str) -> None:
    defense = make(purifier, rule=rule)
    images = images_like(12, SHAPE, seed=2)
    decision = defense.decide(images, batch_size=5)
    logits = torch.cat([defense(part) for part in (images[:5], images[5:10], images[10:])])
    assert torch.equal(logits.argmax(1), decision.label)
    change = decision.post_logits - decision.pre_logits
    state = decision.state
    if rule == "graded":
        # Noise is tested apart: here a corrupted image may be answered from before or after purification.
        expected = torch.where((state == State.SUSPICIOUS)[:, None], decision.post_logits, decision.pre_logits)
        expected = torch.where((state == State.ATTACKED)[:, None], change, expected)
        known = state != State.CORRUPTED
        torch.testing.assert_close(logits[known], expected[known])
    else:
        flagged = decision.flagged if rule == "alu" else torch.zeros_like(decision.flagged)
        torch.testing.assert_close(logits, torch.where(flagged[:, None], change, decision.post_logits))
    assert torch.equal(decision.accepted, ~decision.flagged if rule == "abstain" else torch.ones(12, dtype=torch.bool))
    assert decision.purified.shape == images.shape


def test_outcomes() -> None:
    defense = make(rule="abstain")
    decision = defense.decide(images_like(40, SHAPE, seed=2))
    labels = decision.label.clone()
    labels[::2] = (labels[::2] + 1) % 10
    outcome = decision.outcome(labels)
    assert (outcome[decision.flagged] == Outcome.REJECTED).all()
    answered = ~decision.flagged
    assert (outcome[answered & (decision.label == labels)] == Outcome.CORRECT).all()
    assert (outcome[answered & (decision.label != labels)] == Outcome.WRONG).all()


# Thresholds per class need answers in every class, which an untrained VAE's outputs do not give. Sign steps, as Adam's
# first ones are, turn with the rounding of float32; test_purifiers.py has them in float64.
SIGNS = ("vae adam", "soap")
PAIRS = [
    (purifier, detector)
    for purifier in PURIFIERS
    for detector in DETECTORS
    if purifier not in SIGNS and not ("per class" in detector and ("vae" in purifier or purifier == "chain"))
]


@pytest.mark.parametrize(("purifier", "detector"), PAIRS)
def test_order_subset_and_batch_size_do_not_matter(purifier: str, detector: str) -> None:
    defense = make(purifier, detector, classes=2 if "per class" in detector else 10)
    images = images_like(9, SHAPE, seed=2)
    whole = defense.decide(images)
    for size in (1, 4):
        parts = defense.decide(images, batch_size=size)
        torch.testing.assert_close(parts.post_logits, whole.post_logits, rtol=0, atol=1e-3)
        torch.testing.assert_close(parts.pre_logits, whole.pre_logits, rtol=0, atol=1e-3)
        assert torch.equal(parts.flagged, whole.flagged)
    order = torch.tensor([8, 3, 0, 5, 1, 7, 4, 6, 2])
    torch.testing.assert_close(defense.decide(images[order]).post_logits, whole.post_logits[order], rtol=0, atol=1e-3)


@pytest.mark.parametrize("purifier", list(PURIFIERS))
def test_saved_and_loaded_decides_the_same(purifier: str, tmp_path: Path) -> None:
    defense = make(purifier)
    defense.classes = tuple("abcdefghij")
    images = images_like(8, SHAPE, seed=2)
    defense.save(tmp_path / "saved")
    again = Defense.load(tmp_path / "saved", classifier=defense.classifier)
    before, after = defense.decide(images), again.decide(images)
    for name in ("label", "accepted", "flagged", "score", "p_value", "state", "pre_logits", "post_logits", "purified"):
        assert torch.equal(getattr(before, name), getattr(after, name)), name
    assert again.classes == defense.classes
    assert again.shape == SHAPE


@pytest.mark.parametrize("detector", list(DETECTORS))
def test_a_state_dict_carries_the_calibration(detector: str) -> None:
    defense = make("pca", detector, classes=2)
    fresh = Defense(LinearClassifier(SHAPE, 2), PURIFIERS["pca"](SHAPE), DETECTORS[detector]())
    assert fresh.shape == ()
    fresh.load_state_dict(defense.state_dict())
    images = images_like(30, SHAPE, seed=2)
    before, after = defense.decide(images), fresh.decide(images)
    assert torch.equal(before.p_value, after.p_value)
    assert torch.equal(before.flagged, after.flagged)
    assert fresh.shape == SHAPE


@pytest.mark.parametrize("rule", list(RULES))
def test_score_and_p_value_are_computed_once(rule: str) -> None:
    class Counting(LogitShift):
        calls: ClassVar[list[str]] = []

        def score(self, evidence: Evidence) -> Tensor:
            self.calls.append("score")
            return super().score(evidence)

        def p_values(self, evidence: Evidence, scores: Tensor) -> Tensor:
            self.calls.append("p-value")
            return super().p_values(evidence, scores)

    defense = Defense(LinearClassifier(SHAPE, 10), Blur(0.5), Counting(0.05), rule)
    defense.calibrate(images_like(40, SHAPE))
    Counting.calls.clear()
    defense.decide(images_like(6, SHAPE))
    assert Counting.calls == ["score", "p-value"]


@pytest.mark.parametrize("detector", list(DETECTORS))
@pytest.mark.parametrize("rule", list(RULES))
def test_detectors_and_rules_survive_saving(detector: str, rule: str, tmp_path: Path) -> None:
    defense = make("blur", detector, rule, classes=2)
    images = images_like(30, SHAPE, seed=2)
    defense.save(tmp_path / "saved")
    again = Defense.load(tmp_path / "saved", classifier=defense.classifier)
    assert again.rule == rule
    assert torch.equal(defense.decide(images).flagged, again.decide(images).flagged)


def test_nothing_is_left_behind() -> None:
    classifier = seeded(lambda: resnet18(10, width=8), 0).train()
    defense = Defense(classifier, LatentVAE(small_vae(SHAPE), steps=2), LogitShift(0.05))
    state, statistics = torch.get_rng_state(), {k: v.clone() for k, v in defense.state_dict().items()}
    images = images_like(40, SHAPE)
    before = images.clone()
    defense.calibrate(images)
    attacked = images[:3].clone().requires_grad_(True)
    torch.autograd.grad(defense(attacked).sum(), attacked)
    assert torch.equal(images, before)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(part.training for part in classifier.modules())
    assert all(weight.grad is None and weight.requires_grad for weight in defense.parameters())
    for key, value in defense.state_dict().items():
        calibration = key == "shape_" or key.startswith(("detector.", "residual."))
        assert calibration or torch.equal(value, statistics[key]), key


def test_no_grad_and_inference_mode_give_the_same_answer() -> None:
    defense = make("vae gd")
    images = images_like(5, SHAPE, seed=2)
    plain = defense(images)
    with torch.no_grad():
        quiet = defense(images)
        assert not quiet.requires_grad
        assert torch.equal(quiet, plain)
    with torch.inference_mode():
        assert torch.equal(defense(images.clone()), plain)
        assert torch.equal(defense.decide(images.clone()).label, plain.argmax(1))


@pytest.mark.parametrize("classes", [2, 10, 100, 200])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_number_of_classes_and_precision(classes: int, dtype: torch.dtype) -> None:
    images = images_like(60, SHAPE).to(dtype)
    defense = Defense(LinearClassifier(SHAPE, classes), PURIFIERS["vae gd"](SHAPE), LogitShift(0.05)).to(dtype)
    decision = defense.calibrate(images).decide(images[:5])
    assert decision.post_logits.shape == (5, classes)
    assert decision.post_logits.dtype == dtype


@pytest.mark.parametrize("rule", ["alu", "abstain"])
def test_before_calibration_it_says_what_to_do(rule: str) -> None:
    defense = Defense(LinearClassifier(SHAPE, 10), Blur(0.5), LogitShift(), rule)
    with pytest.raises(NotFittedError, match=r"LogitShift has no threshold yet. Call defense.calibrate\(images\)"):
        defense.decide(images_like(2, SHAPE))


def test_a_purified_rule_needs_no_detector_and_its_score_is_no_number() -> None:
    decision = Defense(LinearClassifier(SHAPE, 10), Blur(0.5), rule="purified").decide(images_like(3, SHAPE))
    assert decision.score.isnan().all()
    assert not decision.flagged.any()
    assert decision.accepted.all()


def test_a_callable_without_gradients_or_parameters() -> None:
    import numpy as np

    weights = np.random.default_rng(0).normal(size=(3 * 32 * 32, 5))

    def endpoint(images: Tensor) -> object:
        return images.flatten(1).numpy().astype("float64") @ weights

    from alu.attacks import PGD

    defense = Defense(endpoint, Blur(0.5), LogitShift(0.05)).calibrate(images_like(40, SHAPE))
    for model in (defense, endpoint):
        with pytest.raises(InputError, match="Use a query attack"):
            PGD(steps=1)(model, images_like(2, SHAPE), torch.tensor([0, 1]))  # type: ignore[arg-type]
    assert len(list(defense.parameters())) == 1, "other tools ask the first parameter for a device"
    assert defense.decide(images_like(4, SHAPE)).label.shape == (4,)


def test_no_steps_and_the_reconstruction_reading_change_nothing() -> None:
    vae = small_vae(SHAPE)
    quiet = Defense(LinearClassifier(SHAPE, 10), LatentVAE(vae, steps=0), LogitShift(0.05), reference="reconstruction")
    decision = quiet.calibrate(images_like(30, SHAPE)).decide(images_like(20, SHAPE, seed=3))
    assert torch.equal(decision.pre_logits, decision.post_logits), "Δ is exactly zero"
    assert float(decision.score.abs().max()) == 0.0
    assert not decision.flagged.any()
    sampled = Defense(
        LinearClassifier(SHAPE, 10),
        LatentVAE(vae, steps=0, start="sampled"),
        LogitShift(0.05),
        reference="reconstruction",
    )
    drawn = sampled.calibrate(images_like(30, SHAPE)).decide(images_like(20, SHAPE, seed=3))
    assert float(drawn.score.min()) > 0.0, "two draws of the code differ"


def test_probabilities_are_noticed() -> None:
    model = nn.Sequential(LinearClassifier(SHAPE, 10), nn.Softmax(1))
    with pytest.warns(AluWarning, match="seems to return probabilities"):
        Defense(model, Blur(0.5), rule="purified").decide(images_like(2, SHAPE))


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: Defense(LinearClassifier(SHAPE, 2), Blur(), rule="alu"), "needs a detector"),
        (lambda: Defense(LinearClassifier(SHAPE, 2), Blur(), LogitShift(), rule="aly"), "Did you mean alu"),
        (lambda: Defense(LinearClassifier(SHAPE, 2), Blur(), LogitShift(), reference="rec"), "no reference 'rec'"),
        (
            lambda: Defense(LinearClassifier(SHAPE, 2), Blur(), LogitShift(), reference="reconstruction"),
            "Blur has none",
        ),
        (lambda: Defense(LinearClassifier(SHAPE, 2), Blur(), LogitShift(), grad_mode="exact"), "no gradient mode"),
        (lambda: Defense(3, Blur(), LogitShift()), "not callable"),  # type: ignore[arg-type]
        (lambda: LogitShift(false_alarm=5), "share of clean images"),
        (lambda: LatentVAE(small_vae(SHAPE), solver="sgd"), "no solver 'sgd'"),
        (lambda: LatentVAE("cifar11-vae"), "no bundled model"),
        (lambda: LatentVAE(nn.Identity()), "encode and decode"),
    ],
)
def test_wrong_settings_are_one_sentence(build: object, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        build()  # type: ignore[operator]


class Broken(nn.Module):
    def __init__(self, answer: object) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, images: Tensor) -> object:
        return self.answer(images)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (lambda x: x.flatten(1)[:, :1], r"at least 2 classes"),
        (lambda x: x.flatten(1).sum(1), r"logits \[N, classes\]"),
        (lambda x: x.flatten(1)[:1, :10], "for N=3 images"),
        (lambda x: x.flatten(1)[:, :10] * float("nan"), "NaN or infinite logits"),
        (lambda x: {"scores": x}, "must return logits as a tensor"),
        (lambda x: (x.flatten(1), x), r"returned a tuple of 2. .* lambda images: classifier\(images\)\[0\]"),
    ],
)
def test_a_broken_classifier_is_one_sentence(answer: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Defense(Broken(answer), Identity(), rule="purified").decide(images_like(3, SHAPE))


def test_wrong_channels_are_one_sentence() -> None:
    with pytest.raises(InputError, match="reads images of 3 channels; these have 1"):
        LatentVAE(small_vae(SHAPE))(images_like(2, (1, 32, 32)))


def test_mixed_precision_is_one_sentence() -> None:
    with pytest.raises(InputError, match="computes in torch.float32, but the images are torch.float64"):
        LatentVAE(small_vae(SHAPE))(images_like(2, SHAPE).double())


@dataclass
class Output:
    """What classifiers of other libraries return."""

    logits: Tensor
    hidden: Tensor | None = None


@pytest.mark.parametrize("wrap", [Output, lambda logits: {"loss": None, "logits": logits}], ids=["object", "dict"])
def test_logits_are_taken_out_of_what_they_are_wrapped_in(wrap: Callable[[Tensor], object]) -> None:
    plain = LinearClassifier(SHAPE, 10)
    images, labels = images_like(40, SHAPE), torch.zeros(40, dtype=torch.int64)
    wrapped = Broken(lambda x: wrap(plain(x)))
    first, second = (
        Defense(model, Blur(0.5), LogitShift(0.05)).calibrate(images).decide(images) for model in (plain, wrapped)
    )
    assert torch.equal(first.post_logits, second.post_logits)
    assert torch.equal(batched_logits(wrapped, images), batched_logits(plain, images))
    attack = PGD(steps=2)
    assert torch.equal(attack(plain, images[:4], labels[:4]), attack(wrapped, images[:4], labels[:4]))
    guided = [AntiAdversary(model)(images[:4]) for model in (plain, wrapped)]
    assert torch.equal(*guided)


def test_a_classifier_of_another_precision_is_one_sentence() -> None:
    defense = Defense(LinearClassifier(SHAPE, 10).double(), Blur(0.5), LogitShift(0.05))
    sentence = (
        "LinearClassifier computes in torch.float64, but the images are torch.float32. Convert .* classifier.float"
    )
    with pytest.raises(InputError, match=sentence):
        defense.calibrate(images_like(40, SHAPE))


def test_images_of_another_size_are_refused_until_it_is_calibrated_on_them() -> None:
    class Mean(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return 20 * images.mean((2, 3))

    defense = Defense(Mean(), Blur(0.5), LogitShift(0.05)).calibrate(images_like(40, SHAPE))
    others = images_like(40, (3, 24, 32))
    for ask in (defense, defense.decide):
        with pytest.raises(InputError, match=r"calibrated on images of 3 x 32 x 32 .* these are 3 x 24 x 32. Scale"):
            ask(others)
    assert defense.calibrate(others).decide(others).label.shape == (40,)


def test_autocast_changes_nothing() -> None:
    defense = Defense(resnet18(10, width=8).eval(), LatentVAE(small_vae(SHAPE), steps=2), LogitShift(0.05))
    images = images_like(40, SHAPE)
    defense.calibrate(images)
    plain = defense.decide(images[:8])
    logits = defense(images[:8])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = defense.decide(images[:8])
        assert torch.equal(defense(images[:8]), logits)
        assert torch.equal(defense.logits(images[:8]), plain.pre_logits)
    assert torch.equal(half.score, plain.score)
    assert half.post_logits.dtype == torch.float32


def test_an_empty_batch_is_one_sentence() -> None:
    defense = make()
    for ask in (defense, defense.decide):
        with pytest.raises(InputError, match=r"given no image: the batch has shape \[0, 3, 32, 32\]"):
            ask(images_like(2, SHAPE)[:0])


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_a_missing_device_is_one_sentence() -> None:
    with pytest.raises(UsageError, match="cannot be moved there: .*CUDA.* Choose another device"):
        make().to("cuda")


def test_labels_of_another_type_are_one_sentence() -> None:
    with pytest.raises(InputError, match=r"labels of type torch.int64; these are torch.int32. Pass labels.long\(\)"):
        PGD(steps=1)(make(), images_like(2, SHAPE), torch.tensor([0, 1], dtype=torch.int32))


def test_a_saved_defense_is_protected_from_changes(tmp_path: Path) -> None:
    defense = make("vae gd")
    place = tmp_path / "saved"
    defense.save(place)
    facts = json.loads((place / "defense.json").read_text())
    for change in (
        {"detector": {**facts["detector"], "false_alarm": 0.4}},
        {"purifier": {**facts["purifier"], "steps": 0}},
    ):
        (place / "defense.json").write_text(json.dumps({**facts, **change}))
        with pytest.raises(StorageError, match=r"defense.json was changed after it was written"):
            Defense.load(place, classifier=defense.classifier)
    (place / "defense.json").write_text(json.dumps(facts))
    Defense.load(place, classifier=defense.classifier)
    weights = bytearray((place / "weights.safetensors").read_bytes())
    weights[-5] ^= 1
    (place / "weights.safetensors").write_bytes(weights)
    with pytest.raises(StorageError, match=r"weights.safetensors was changed after it was written"):
        Defense.load(place, classifier=defense.classifier)


def test_another_normalisation_is_another_classifier(tmp_path: Path) -> None:
    from alu.models import Normalize

    def built(mean: float) -> nn.Module:
        return nn.Sequential(Normalize([mean] * 3, [0.25] * 3), LinearClassifier(SHAPE, 4))

    Defense(built(0.5), Blur(0.5), rule="purified").save(tmp_path / "d")
    Defense.load(tmp_path / "d", classifier=built(0.5))
    with pytest.raises(StorageError, match="its weights differ"):
        Defense.load(tmp_path / "d", classifier=built(0.4))


def test_traits_say_what_an_attacker_must_reckon_with() -> None:
    assert make("blur").traits.detector
    assert not make("blur", rule="purified").traits.detector
    assert make("vae sampled").traits.stochastic
    assert make("vae adam").traits.gradient == "twin"
    assert make("chain").traits.iterative


def test_loading_refuses_other_weights_strangers_code_and_damage(tmp_path: Path) -> None:
    defense = make("vae gd")
    place = tmp_path / "saved"
    defense.save(place)
    with pytest.raises(StorageError, match="its weights differ"):
        Defense.load(place, classifier=LinearClassifier(SHAPE, 9))
    with pytest.raises(UsageError, match="Pass it"):
        Defense.load(place)
    with pytest.raises(StorageError, match="no defense.json"):
        Defense.load(tmp_path)
    defense.save(place, factory="os:getcwd")
    with pytest.raises(UntrustedError, match="trust=True"):
        Defense.load(place)
    weights = place / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(StorageError, match="was changed after it was written"):
        Defense.load(place, classifier=defense.classifier)
    (place / "defense.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(StorageError, match="format"):
        Defense.load(place, classifier=defense.classifier)
    (place / "defense.json").write_text("{")
    with pytest.raises(StorageError, match="not valid JSON"):
        Defense.load(place, classifier=defense.classifier)


def test_saving_never_overwrites_what_is_not_a_defense(tmp_path: Path) -> None:
    defense = make()
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(StorageError, match="was not written by alu"):
        defense.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]
    defense.save(tmp_path / "d")
    defense.save(tmp_path / "d")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "precious.txt"]


def test_a_decision_can_be_indexed_and_made_plain() -> None:
    decision = make(rule="abstain").decide(images_like(8, SHAPE, seed=2))
    assert bool(decision[3].flagged) == bool(decision.flagged[3])
    assert decision[3].post_logits.shape == (10,)
    assert len(decision[2:5]) == 3
    assert len(decision[decision.flagged]) == int(decision.flagged.sum())
    assert [int(one.label) for one in decision] == decision.label.tolist()  # type: ignore[attr-defined]
    plain = json.loads(json.dumps(decision.to_dict(), allow_nan=False))
    assert plain["label"] == decision.label.tolist()
    assert "purified" not in plain
    assert json.loads(json.dumps(decision[3].to_dict(purified=True)))["p_value"] == float(decision.p_value[3])
    unknown = Defense(LinearClassifier(SHAPE, 10), rule="purified").decide(images_like(2, SHAPE))
    assert unknown.to_dict()["score"] == [None, None]


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_a_missing_device_is_one_sentence_in_fits_and_trainings_too() -> None:
    from alu.data import Dataset
    from alu.fitting import Plan
    from alu.training.loop import Run, train
    from alu.training.objectives import Classification
    from alu.training.settings import Settings

    with pytest.raises(UsageError, match="There is no device 'cuda' on this machine. Use the device cpu"):
        Plan(purifier="blur", device="cuda")
    few = Dataset((images_like(8, SHAPE) * 255).byte(), torch.arange(8) % 2, ("a", "b"), "few")
    with pytest.raises(UsageError, match="There is no device 'cuda'"):
        train(Run(resnet18(2, width=8), Classification(), few, few, Settings(epochs=1, batch_size=4), device="cuda"))
