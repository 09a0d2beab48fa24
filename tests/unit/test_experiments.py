"""What experiments compute, by hand where a hand can: features, one step, decoding, descents, verdicts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from alu import Defense
from alu.data.cifar10 import CLASSES
from alu.evaluation.run import other_networks
from alu.evaluation.subject import Subject
from alu.experiments import artefacts, features, logit_change, one_step, pattern_cost
from alu.experiments.catalog import EXPERIMENTS
from alu.experiments.descents import CLASSIFIERS, at_each, image_sets
from alu.experiments.material import Material, Shown
from alu.experiments.unions import as_dataset, union
from alu.experiments.verdicts import digits, verdicts
from alu.purifiers import LatentVAE
from alu.rng import generator
from alu.storage import write_json
from tests.unit.test_random_defences import sampled
from tests.unit.toys import Toy, toy_data


def test_one_number_is_reached_in_one_step_and_ten_are_not() -> None:
    material = Material({"n": 50})
    one, fitting, ten, fitting_ten = (cell.run() for cell in one_step.cells(material))
    assert max(fitting["error after"]) < 1e-9
    assert sum(rate > 0 for rate in fitting["rate"]) < 50, (
        "even with a label that fits the image it is not always positive"
    )
    assert max(one["error after"]) < 1e-9
    assert min(ten["error after"]) > 0.05
    assert 0 < fitting_ten["some rate is right"].count("1") < 50, "at times some rate gives the right answer"
    assert 25 < sum(rate > 0 for rate in one["rate"]) < 50, "more often positive than not, but not always"


def test_the_appendix_formula_is_the_best_rate() -> None:
    stream = generator(0, "formula")
    decoder, classifier, image, code, wanted = (
        torch.randn(shape, generator=stream, dtype=torch.float64) for shape in ((6, 3), (1, 6), (6,), (3,), (1,))
    )
    stated = (wanted - classifier @ decoder @ code) / (2 * classifier @ decoder @ decoder.T @ (image - decoder @ code))
    torch.testing.assert_close(one_step.best_rate(decoder, classifier, image, code, wanted), stated.squeeze())


def test_a_rate_that_is_right_exists_where_a_search_finds_one() -> None:
    stream, found = generator(0, "rates"), []
    rates = torch.logspace(-6, 6, 4001, dtype=torch.float64)
    for _ in range(60):
        decoder, classifier, image, code = (
            torch.randn(shape, generator=stream, dtype=torch.float64) for shape in ((8, 3), (4, 8), (8,), (3,))
        )
        label = int((classifier @ image).argmax())
        start, slope = (classifier @ decoder @ way for way in (code, 2 * decoder.T @ (image - decoder @ code)))
        searched = bool(((start + rates[:, None] * slope).argmax(1) == label).any())
        found.append(searched)
        assert one_step.some_rate(decoder, classifier, image, code, label) == searched
    assert {True, False} == set(found)
    # Two classes of equal slope: no rate changes which of them is ahead.
    decoder, classifier = torch.eye(2, dtype=torch.float64), torch.tensor([[1.0, 0.0], [2.0, 0.0]]).double()
    image, code = torch.tensor([1.0, 1.0]).double(), torch.tensor([1.0, 0.0]).double()
    assert not one_step.some_rate(decoder, classifier, image, code, 0)
    assert one_step.some_rate(decoder, classifier, image, code, 1)


def test_a_union_has_images_of_another_network() -> None:
    material = Material({"n": 4})
    shown = material.images("cifar10", "test", 4)
    (other,) = other_networks(Subject(material.classifier("cifar10-standard")), as_dataset(shown))
    assert Subject(other).name == "cifar10-unified"
    attacked = material.attacked("nothing", shown, lambda model, images, labels: images, lambda images: images)
    assert attacked.classes == shown.classes == CLASSES


def test_a_union_goes_on_from_its_cell_and_not_from_a_stranger(tmp_path: Path) -> None:
    data = toy_data(4)
    shown, told = Shown("toys", data.images, data.labels, data.classes), []
    material = Material({"n": 4}, watch=lambda what, done, total: told.append((done, total)))
    whole = union(material, Toy(), shown)
    material.work = tmp_path / "cell"

    def interrupted(what: str, done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    material.watch = interrupted
    with pytest.raises(KeyboardInterrupt):
        union(material, Toy(), shown)
    left = tmp_path / "cell" / "union.json.work" / "evaluation.json"
    assert left.exists()
    material.watch = lambda *_: None
    assert union(material, Toy(), shown) == whole
    write_json(left, {"subject": "another"})
    assert union(material, Toy(), shown) == whole


def test_a_union_of_a_random_defence_keeps_its_draws() -> None:
    data = toy_data(4)
    shown = Shown("toys", data.images, data.labels, data.classes)
    stages: set[str] = set()
    watched = Material({"n": 4}, watch=lambda what, done, total: stages.add(what))
    found = union(watched, Defense(Toy(), sampled(), rule="purified"), shown)
    assert stages == {"Attacking toys"}, "a cell is about the defence; the bare classifier has cells of its own"
    draws, right = found["right draws"], {"clean": found["clean"], "adaptive": found["adaptive"]}
    for when, digit in right.items():
        assert len(draws[when]) == 4
        assert all(share == 1.0 for share, one in zip(draws[when], digit, strict=True) if one == "1")
    assert all(least <= share for share, least in zip(draws["clean"], draws["adaptive"], strict=True))
    assert "right draws" not in union(Material({"n": 4}), Toy(), shown)


def test_features_are_split_as_the_paper_says() -> None:
    # Contributions to the true logit: 2 (kept), 4 (falls to 1), -1 (irrelevant); one image.
    before, after = torch.tensor([[1.0, 2.0, 1.0]]), torch.tensor([[1.0, 0.5, 3.0]])
    own, theirs = torch.tensor([[2.0, 2.0, -1.0]]), torch.tensor([[0.0, -1.0, 1.0]])
    found = features._parts(before, after, own, theirs, 0.8)
    assert found["true"] == {"robust": [0.0], "non-robust": [-3.0], "irrelevant": [-2.0], "all": [-5.0]}
    assert found["adversarial"] == {"robust": [0.0], "non-robust": [1.5], "irrelevant": [2.0], "all": [3.5]}
    assert found["share of features"] == {"robust": 0.3333, "non-robust": 0.3333, "irrelevant": 0.3333}


def test_a_probe_learns_what_is_there_and_nothing_where_nothing_is() -> None:
    stream = generator(0, "probe")
    labels = torch.arange(200) % 10
    written = torch.nn.functional.one_hot(labels, 20).float() + 0.1 * torch.randn((200, 20), generator=stream)
    weights = artefacts._probe(written[:100], labels[:100], 0)
    assert ((written[100:] @ weights).argmax(1) == labels[100:]).float().mean() > 0.95
    noise = torch.randn((200, 20), generator=stream)
    weights = artefacts._probe(noise[:100], labels[:100], 0)
    assert ((noise[100:] @ weights).argmax(1) == labels[100:]).float().mean() < 0.3


def small() -> Material:
    return Material({"n": 12, "calibration": 200, "steps": 4, "robust": 4, "enlarged": 4, "probe": 200})


def test_verdicts_are_those_of_the_deployed_defence() -> None:
    from alu.experiments.unions import defended

    material = small()
    shown = material.images("cifar10", "test", 12)
    # A threshold from few images, so that some clean ones are flagged and both branches are seen.
    found = verdicts(material, "cifar10-standard", "cifar10-vae@2", shown)
    for reading in ("input", "reconstruction"):
        decision = defended(material, "cifar10-standard", "cifar10-vae@2", reading).decide(shown.images)
        assert found[reading]["alu"] == digits(decision.label == shown.labels)
        assert found[reading]["flagged"] == digits(decision.flagged)
        assert found[reading]["all flagged"] == digits(
            (decision.post_logits - decision.pre_logits).argmax(1) == shown.labels
        )
        assert found["purified"] == digits(decision.post_logits.argmax(1) == shown.labels)


def test_a_descent_gives_what_each_number_of_steps_gives() -> None:
    material = small()
    whole = LatentVAE("cifar10-vae", steps=4, lr=1e-2, schedule="constant")
    images = material.images("cifar10", "test", 12).images
    for count, output in zip((0, 1, 4), whole.outputs(images, (0, 1, 4)), strict=True):
        alone = LatentVAE("cifar10-vae", steps=count, lr=1e-2, schedule="constant")
        torch.testing.assert_close(output, alone(images))
    found = at_each(material, whole, "test", [0, 4])
    for classifier in CLASSIFIERS:
        row = found[classifier]
        assert set(row["clean"]["4"]) == {"purified", "input", "reconstruction"}
        nothing = row["pgd-20 on f(D(E))"]["0"]["reconstruction"]
        assert nothing["flagged"] == "0" * 12, "without steps nothing changes, so nothing is flagged"
        assert nothing["score / threshold"] == [0, 0, 0]
        for kind, shown in image_sets(material, classifier, 12).items():
            assert row[kind]["4"]["purified"] == digits(
                material.classifier(classifier)(whole(shown.images)).argmax(1) == shown.labels
            )
            moved = row[kind]["4"]["input"]
            assert all(score > 0 for score in moved["score / threshold"])
            assert (moved["flagged"].count("1") > 6) <= (moved["score / threshold"][1] > 1), "the median is flagged"


def test_cases_of_logit_changes_add_up() -> None:
    cell = logit_change.cells(small())[0]
    found = cell.run()
    succeeded = found["attacked"].count("1")
    assert len(found["case"]) == len(found["true falls most"]) == len(found["true"]) == succeeded > 0
    for case, own, answered in zip(found["case"], found["true"], found["answered"], strict=True):
        assert case == ("3" if own >= 0 else "1" if answered > 0 else "2")
    assert found["example"]["before"][found["example"]["true"]] == max(found["example"]["before"])


def test_pattern_cost_counts_what_attacks_ask() -> None:
    material = Material({"n": 5, "steps": 3})
    pgd = next(cell for cell in pattern_cost.cells(material) if cell.key == "cifar10-standard/pgd").run()
    asked = pgd["right clean"].count("1")
    assert 0 < asked <= 5
    assert pgd["backwards"] == asked * 3, "only images that are right clean are attacked"
    assert pgd["forwards"] >= asked * 3
    assert len(pgd["fooled"]) == 5


def test_pattern_gives_case_three_in_most_of_its_successes() -> None:
    cells = {cell.key: cell for cell in pattern_cost.cells(Material({"n": 20, "steps": 20}))}
    found = cells["cifar10-standard/pattern"].run()
    assert found["fooled"].count("1") >= 12
    assert found["case 3"].count("1") >= found["fooled"].count("1") / 2


TINY = {
    "histogram": "clean", "threats": "purified/oblivious", "each-attack": "cifar10-pca, input/Decoy",
    "whole-suite": "cifar10-pca, input/quick",
    "table2": "cifar10-standard/clean", "table3": "Blur + ALU/pgd-20 on f", "bpda": "plug-in, purified/bpda-eot",
    "artefacts": "E4/pca 100",
}  # fmt: skip


@pytest.mark.parametrize("name", list(TINY))
def test_a_cell_of_each_experiment_runs(name: str) -> None:
    experiment = EXPERIMENTS[name]
    material = Material({key: 2 for key in experiment.quick} | {"calibration": 200})
    cells = {cell.key: cell for cell in experiment.cells(material)}
    assert len(cells) == len(experiment.cells(material)), "keys are unique"
    found = cells[TINY[name]].run()
    assert found["n"] == 2
    assert json.loads(json.dumps(found, allow_nan=False)) == found, "plain values only"


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_every_cell_has_its_own_key(name: str) -> None:
    for sizes in (EXPERIMENTS[name].full, EXPERIMENTS[name].quick):
        keys = [cell.key for cell in EXPERIMENTS[name].cells(Material(sizes))]
        assert len(keys) == len(set(keys)) > 0
