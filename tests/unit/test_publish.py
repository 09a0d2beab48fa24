"""Cards of finished runs and of bundled models: what is measured, by hand on networks whose answers are known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tools import publish
from tools.publish import Measured
from tools.write_documents import bundled_models
from torch import Tensor, nn

from alu import data, models
from alu.errors import UsageError
from alu.models import cards
from alu.purifiers import Identity, LatentVAE, Purifier
from alu.storage import read_json, write_json, write_tensors
from alu.training.checkpoint import Progress, save_checkpoint
from alu.training.loop import Run
from alu.training.recipes import RECIPES, recipe, seeded
from tests.contracts.parts import awake, images_like
from tests.toys import Brightness, toy_data


def shades(count: int = 40) -> data.Dataset:
    """Even images, dark (class 1) and bright (class 0); every tenth carries the wrong label."""
    levels = torch.tensor([0.4 if number % 2 else 0.6 for number in range(count)])
    labels = torch.arange(count) % 2
    labels[::10] = 1 - labels[::10]
    return data.Dataset(levels.view(-1, 1, 1, 1).expand(-1, 1, 8, 8).clone(), labels, ("bright", "dark"), "shades")


def test_a_classifier_is_right_on_the_share_that_it_is() -> None:
    about = Measured("shades-at", "shades", shades())
    found = publish.robust_classifier(Brightness(), about)
    assert found["clean accuracy"]["percent"] == 90.0
    assert found["clean accuracy"]["n"] == 40
    assert found["clean accuracy"]["on"] == "shades test"
    low, high = found["clean accuracy"]["interval"]
    assert low < 90.0 < high
    # 8/255 does not reach from 0.6 to 0.5, so no attack changes an answer.
    assert [found[f"PGD-{steps}, 8/255"]["percent"] for steps in (10, 20, 50)] == [90.0] * 3
    assert set(publish.plain_classifier(Brightness(), about)) == {"clean accuracy", "PGD-20, 8/255"}


def test_a_few_images_are_named_as_few() -> None:
    about = Measured("shades-at", "shades", shades())
    assert about.figure(torch.ones(10, dtype=torch.bool))["on"] == "10 of shades test"


class Inverting(nn.Module):
    """A denoiser, or a VAE, that hands out the negative."""

    def encode(self, images: Tensor) -> tuple[Tensor, Tensor]:
        return 1 - images, torch.zeros_like(images)

    def decode(self, code: Tensor) -> Tensor:
        return code

    def forward(self, images: Tensor) -> Tensor:
        return 1 - images


def test_denoisers_and_vaes_are_judged_by_the_clean_classifier(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = {"shades-standard": Brightness(), "shades-vae": Inverting()}
    monkeypatch.setattr(models, "load", loaded.__getitem__)
    monkeypatch.setattr("alu.purifiers.latent.load", loaded.__getitem__)
    monkeypatch.setattr(models, "names", lambda: list(loaded))
    about = Measured("shades-unet", "shades", shades())
    found = publish.denoiser(Inverting(), about)
    assert [figure["percent"] for figure in found.values()] == [10.0, 10.0, 90.0]
    seen = publish.vae(Inverting(), about)
    assert seen["shades-standard after 0 steps"]["percent"] == 10.0
    assert seen["shades-standard after 20 steps"]["percent"] == 90.0, "the steps find the image itself"
    assert seen["rmse after 0 steps"] == pytest.approx(0.2, abs=1e-4)
    assert seen["rmse after 20 steps"] < 0.06
    unified = publish.through_vae(Brightness(), about)
    named = "clean accuracy through shades-vae, {} steps"
    assert [unified[named.format(steps)]["percent"] for steps in (0, 20)] == [10.0, 90.0]
    assert unified["clean accuracy on bare images"]["percent"] == 90.0
    monkeypatch.setattr(models, "names", list)
    assert set(publish.vae(Inverting(), about)) == {"rmse after 0 steps", "rmse after 20 steps"}


def test_learned_steps_are_measured_one_by_one_around_the_bundled_vae(monkeypatch: pytest.MonkeyPatch) -> None:
    vae = seeded(lambda: models.vae(1, latent=4, width=16), 0)
    loaded = {"shades-standard": Brightness(), "shades-vae": vae}
    monkeypatch.setattr(models, "load", loaded.__getitem__)
    about = Measured("shades-vae-learned", "shades", shades())
    model = awake(models.amortised(1, latent=4, width=16, breadth=8, steps=2).around(vae))  # type: ignore[operator]
    found = publish.learned_steps(model, about)
    assert list(found) == [
        f"{what} after {steps} learned" for steps in (2, 1, 0) for what in ("shades-standard", "rmse")
    ]
    for steps in range(3):
        purified = LatentVAE(model, solver="learned", steps=steps)(about.test.images)
        rmse = float((purified - about.test.images).square().mean().sqrt())
        assert found[f"rmse after {steps} learned"] == pytest.approx(rmse, abs=1e-5)
    with torch.no_grad():
        model.vae.decoder[0].bias.add_(0.1)  # type: ignore[union-attr, index]
    with pytest.raises(UsageError, match="The VAE inside this run is not the bundled shades-vae"):
        publish.learned_steps(model, about)


def test_accuracy_under_noise_is_measured_with_the_noise_of_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    class Watched(Brightness):
        def forward(self, images: Tensor) -> Tensor:
            seen.append(float(images.detach().std()))
            return super().forward(images)

    about = Measured("cifar10-smooth-50", "shades", shades())
    found = publish.smoothing_classifier(Watched(), about)
    # The mean of 64 pixels moves by 0.5 / 8 at most a few times, and 0.6 is 0.1 away from the boundary.
    assert 80.0 <= found["accuracy under noise of 0.5"]["percent"] <= 95.0
    assert max(seen) > 0.45, "noise is not clipped"
    monkeypatch.setattr(models, "load", lambda name: Watched())
    denoised = publish.noise_denoiser(nn.Identity(), Measured("cifar10-denoiser", "shades", shades()))
    after, alone = (f"shades-standard {how}, accuracy under noise of 0.25" for how in ("after denoising", "alone"))
    assert denoised["shades-standard after denoising, clean"]["percent"] == 90.0
    assert denoised[after] == denoised[alone]
    negative = publish.noise_denoiser(Inverting(), Measured("cifar10-denoiser", "shades", shades()))
    assert negative["shades-standard after denoising, clean"]["percent"] == 10.0


def test_every_recipe_of_the_zoo_has_its_measure() -> None:
    kinds = {name: publish.measure_of(name, recipe(name)).__name__ for name in RECIPES if recipe(name).dataset}
    assert kinds["cifar10-unet"] == "denoiser"
    assert {name for name, kind in kinds.items() if kind == "vae"} == {
        "cifar10-vae", "cifar10-vae-deep", "cifar100-vae", "tiny-imagenet-vae", "cifar10-paper-vae",
    }  # fmt: skip
    assert {name for name, kind in kinds.items() if kind == "learned_steps"} == {
        "cifar10-vae-learned", "cifar100-vae-learned", "tiny-imagenet-vae-learned",
    }  # fmt: skip
    assert {name for name, kind in kinds.items() if kind == "through_vae"} == {
        "cifar10-unified", "cifar10-unified-deep", "cifar100-unified", "tiny-imagenet-unified", "cifar10-asymmetric",
        "cifar10-paper-unified",
    }  # fmt: skip
    assert [name for name, kind in kinds.items() if kind == "robust_classifier"] == ["cifar10-at"]
    assert {name for name, kind in kinds.items() if kind in ("smoothing_classifier", "noise_denoiser")} == {
        "cifar10-smooth", "cifar10-smooth-50", "cifar10-denoiser",
    }  # fmt: skip
    assert kinds["cifar10-denoiser"] == "noise_denoiser"
    own = {"score": "score_network", "energy": "energy", "contrastive": "contrastive", "soap": "consistent_classifier"}
    assert {name: kinds[f"cifar10-{name}"] for name in own} == own
    assert kinds["tiny-imagenet-standard"] == kinds["cifar10-gairat"] == "plain_classifier"


class Brighter(Purifier):
    """Turns dark images bright, and bright ones brighter."""

    def run(self, images: Tensor) -> Tensor:
        return images + 0.2


def test_methods_are_measured_as_they_are_deployed() -> None:
    about = Measured("shades-soap", "shades", shades())
    found = publish.behind(Brightness(), "shades-standard", [Brighter(), Identity()], about)
    # Of 40 images 16 are labelled bright, and behind the first purifier all are. 8/255 reaches no boundary.
    assert {name: figure["percent"] for name, figure in found.items()} == {
        "shades-standard behind Brighter, clean": 40.0,
        "shades-standard behind Brighter, oblivious PGD-20, 8/255": 40.0,
        "shades-standard behind Identity, clean": 90.0,
        "shades-standard behind Identity, oblivious PGD-20, 8/255": 90.0,
        "shades-standard alone, PGD-20, 8/255": 90.0,
    }  # fmt: skip


def test_every_method_is_measured_behind_its_own_purifier(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[tuple[str, list[str]]] = []

    def note(classifier: nn.Module, name: str, purifiers: list[Purifier], about: Measured) -> dict[str, object]:
        measured.append((name, [type(purifier).__name__ for purifier in purifiers]))
        return {}

    monkeypatch.setattr(publish, "behind", note)
    monkeypatch.setattr(models, "load", lambda name: Brightness())
    about = Measured("shades-soap", "shades", shades())
    publish.score_network(models.score(width=8), about)
    publish.energy(models.energy(width=8), about)
    publish.contrastive(models.contrastive(width=8), about)
    assert "clean accuracy" in publish.consistent_classifier(Brightness(), about)
    assert measured == [
        ("shades-standard", ["ADP", "DiffPure"]), ("shades-standard", ["LongRun"]), ("shades-at", ["ReverseAttack"]),
        ("shades-soap", ["SOAP"]),
    ]  # fmt: skip


def test_a_run_of_the_energy_is_published_without_its_bank(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:  # fmt: skip
    made = recipe("cifar10-energy")
    network = seeded(lambda: models.energy(width=8, bank=4), 0)
    facts = {"settings": {**made.settings.as_json(), "epochs": 1}, "data": ["toys", "train", 64, [3, 32, 32]],
             "objective": json.loads(json.dumps(made.objective().as_json())),
             "architecture": network.architecture}  # fmt: skip
    write_json(tmp_path / "run.json", facts)
    write_tensors(tmp_path / "best.safetensors", network.state_dict())
    (tmp_path / "curve.jsonl").write_text(json.dumps({"step": 1, "epoch": 1}) + "\n")
    monkeypatch.setattr(data, "open_dataset", lambda *_, **__: shades())
    monkeypatch.setattr(publish, "energy", lambda model, about: {"kept": about.figure(torch.ones(5).bool())})
    weights = tmp_path / "weights"
    weights.mkdir()
    monkeypatch.setattr(models, "save", lambda model, card, half: cards.save(model, card, weights, half=half))
    path = publish.publish_run("cifar10-energy", tmp_path)
    card = cards.read_card(path.with_suffix(".json"))
    assert card.architecture["bank"] == 0
    assert card.differs == made.differs
    assert "The authors" in card.differs
    assert path.stat().st_size < 2.2 * sum(weight.numel() for weight in network.parameters()) + 4_000
    assert f"How it differs from its paper: {made.differs}" in bundled_models(weights, {})


@pytest.mark.parametrize(("last", "whole"), [(0, False), (-1, False), (1, True)])
def test_weights_and_curve_alone_tell_whether_a_run_is_whole(tmp_path: Path, last: int, whole: bool) -> None:
    made = recipe("cifar10-standard")
    facts = {"settings": made.settings.as_json(), "data": ["toys", "train", 128, [3, 8, 8]],
             "objective": json.loads(json.dumps(made.objective().as_json()))}  # fmt: skip
    total = publish.total_steps(facts)
    # A point of the training's own loss is not yet a measured epoch.
    rows = [{"step": 1, "epoch": 1, "held_out_accuracy": 0.5}, {"step": total, "loss": 1.0}]
    rows += [{"step": total, "epoch": made.settings.epochs}] if last > 0 else []
    (tmp_path / "curve.jsonl").write_text("" if last < 0 else "\n".join(map(json.dumps, rows)) + "\n")
    if whole:
        publish._refuse_unfinished(made, tmp_path, facts)
    else:
        with pytest.raises(UsageError, match=f"not finished: {1 + last} of {total} steps"):
            publish._refuse_unfinished(made, tmp_path, facts)


def test_a_run_is_published_only_when_it_is_whole_and_as_the_recipe_is_now(tmp_path: Path) -> None:
    made = recipe("cifar10-standard")
    run = Run(
        nn.Linear(2, 2), made.objective(), toy_data(6), toy_data(2), replace(made.settings, batch_size=3), tmp_path
    )
    write_json(tmp_path / "run.json", run.configuration())
    optimizer = torch.optim.SGD(run.model.parameters(), lr=0.1)
    last = 2 * made.settings.epochs
    for step in (last - 1, last):
        save_checkpoint(tmp_path / "checkpoint.safetensors", run.model, optimizer, None, Progress(step), {})
        facts = read_json(tmp_path / "run.json")
        if step < last:
            with pytest.raises(
                UsageError, match=rf"not finished: {step} of {last} steps. Go on with alu train cifar10-s"
            ):
                publish._refuse_unfinished(made, tmp_path, facts)
        else:
            publish._refuse_unfinished(made, tmp_path, facts)
    with pytest.raises(UsageError, match="another objective than the recipe cifar10-standard has now"):
        publish._refuse_unfinished(made, tmp_path, {**facts, "objective": {"name": "Trades"}})


def test_half_precision_is_exact_or_refused(tmp_path: Path) -> None:
    model = seeded(lambda: models.resnet18(3, width=4), 0).eval()
    card = models.Card("small", "classifier", model.architecture, "nothing", "none", "this test", "MIT", "")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="Round them first"):
        models.save(model, card, tmp_path, half=True)
    assert not list(tmp_path.iterdir())
    whole = models.save(model, card, tmp_path).stat().st_size
    rounded = models.rounded(model)
    path = models.save(rounded, card, tmp_path, half=True)
    assert path.stat().st_size < 0.65 * whole
    images = images_like(2, (3, 16, 16))
    with torch.no_grad():
        torch.testing.assert_close(models.load_file(path)(images), rounded(images))
    with torch.no_grad():
        model.linear.bias.fill_(1e6)  # type: ignore[union-attr, operator]
    with pytest.raises(UsageError, match="beyond half precision"):
        models.rounded(model)


def test_the_command_takes_the_folder_of_data_that_alu_does_not_fetch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(publish, "publish_run", lambda *words: asked.append(words) or Path("written"))
    publish.main(["cifar10-at", "run"])
    publish.main(["cifar100-vae", "run", "files"])
    assert asked == [("cifar10-at", Path("run")), ("cifar100-vae", Path("run"), Path("files"))]
    for words in ([], ["cifar10-at"], ["cifar10-pca", "run"], ["cifar10-at", "run", "files", "more"]):
        with pytest.raises(SystemExit):
            publish.main(words)
        assert "takes a recipe, the folder of its run and" in capsys.readouterr().err
    assert len(asked) == 2
