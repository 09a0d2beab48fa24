"""The training loop: exact resume, equal random numbers for any number of processes, losses by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from alu import models
from alu.data import Dataset
from alu.errors import DivergedError, StorageError
from alu.rng import generator
from alu.training.batches import Batch, Draws, batches
from alu.training.curve import draw_curve, series
from alu.training.loop import Run, train
from alu.training.objectives import Autoencoding, Classification, Objective, measured
from alu.training.recipes import seeded
from alu.training.settings import Settings
from tests.contracts.parts import images_like


def small_data(count: int = 96) -> Dataset:
    """Two classes that differ in brightness."""
    labels = torch.arange(count) % 2
    images = (0.6 * images_like(count, (3, 16, 16)) + 0.4 * labels.view(-1, 1, 1, 1)).clamp(0, 1)
    return Dataset((images * 255).to(torch.uint8), labels, ("dark", "bright"), "small")


def small_run(folder: Path | None, **changes: object) -> Run:
    settings = Settings(
        **{"epochs": 3, "batch_size": 16, "lr": 0.05, "average": 0.9, "augment": "crop-flip", "seed": 4, **changes}  # type: ignore[arg-type]
    )
    model = seeded(lambda: models.resnet18(2, width=8), settings.seed)
    return Run(model, Classification(0.1), small_data(), small_data(32), settings, folder, every=0.0)


class Killed(Exception):
    """Stands for the moment a process dies."""


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("step", [1, 6, 8, 13, 18])
def test_an_interrupted_run_ends_with_the_same_bits(tmp_path: Path, optimizer: str, step: int) -> None:
    lr = 0.05 if optimizer == "sgd" else 1e-3
    whole = small_run(tmp_path / "whole", optimizer=optimizer, lr=lr)
    figures = train(whole)

    def die(done: int, total: int, _: dict[str, float]) -> None:
        if done == step:
            raise Killed

    with pytest.raises(Killed):
        train(small_run(tmp_path / "cut", optimizer=optimizer, lr=lr), die)
    resumed = small_run(tmp_path / "cut", optimizer=optimizer, lr=lr)
    assert train(resumed) == figures
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[name]), name
    curves = [(tmp_path / run / "curve.jsonl").read_text().splitlines() for run in ("whole", "cut")]
    assert [json.loads(row)["step"] for row in curves[0]] == [json.loads(row)["step"] for row in curves[1]]


def test_a_parked_run_goes_on_without_its_best_weights(tmp_path: Path) -> None:
    def die(done: int, total: int, _: dict[str, float]) -> None:
        if done == 8:
            raise Killed

    with pytest.raises(Killed):
        train(small_run(tmp_path, epochs=2), die)
    (tmp_path / "best.safetensors").unlink()
    train(small_run(tmp_path, epochs=2))
    assert (tmp_path / "best.safetensors").exists()


def test_held_out_images_are_of_all_classes_where_they_are_sorted() -> None:
    labels = torch.arange(4).repeat_interleave(25)
    data = Dataset(torch.zeros((100, 3, 4, 4), dtype=torch.uint8), labels, ("a", "b", "c", "d"), "sorted")

    class Seen(Classification):
        measured_on = 20

        def measure(self, model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
            return {f"class {number}": (labels == number).float() for number in range(4)}

    found = measured(Seen(), nn.Identity(), data, torch.device("cpu"))
    assert sum(found.values()) == pytest.approx(1.0)
    assert min(found.values()) > 0


def test_a_batch_knows_how_much_of_the_training_is_done() -> None:
    settings = Settings(epochs=2, batch_size=24)
    done = [batch.done for epoch in range(2) for batch in batches(small_data(), settings, epoch)]
    assert done == pytest.approx([number / 8 for number in range(8)])


def test_it_learns_and_the_loss_falls(tmp_path: Path) -> None:
    losses: list[float] = []
    figures = train(small_run(tmp_path, epochs=6), lambda done, total, now: losses.append(now["loss"]))
    assert figures["accuracy"] >= 0.95
    assert sum(losses[-6:]) < 0.7 * sum(losses[:6])


def test_another_configuration_is_not_resumed(tmp_path: Path) -> None:
    train(small_run(tmp_path, epochs=1))
    with pytest.raises(StorageError, match=r"another run: lr was 0.05 and is now 0.01. Go on with the old settings"):
        train(small_run(tmp_path, epochs=1, lr=0.01))


def test_a_damaged_checkpoint_is_one_sentence(tmp_path: Path) -> None:
    train(small_run(tmp_path, epochs=1))
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(StorageError, match="not a whole checkpoint"):
        train(small_run(tmp_path, epochs=1))


class Exploding(Objective):
    """A loss that is no number from the fifth step on."""

    steps = 0

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        self.steps += 1
        value = model(batch.images).square().mean()
        return (value * float("nan") if self.steps > 4 else value), {}

    def measure(self, model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"zero": torch.zeros(len(images))}

    def as_json(self) -> dict[str, object]:
        return {}


def test_a_loss_that_is_no_number_stops_with_the_last_good_checkpoint(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    run.objective = Exploding()
    with pytest.raises(
        DivergedError, match="nan at step 5. The last good checkpoint is kept; start again in another folder with a sm"
    ):
        train(run)
    from alu.storage import read_tensors

    kept = read_tensors(tmp_path / "checkpoint.safetensors")
    assert all(torch.isfinite(tensor).all() for tensor in kept.values() if tensor.is_floating_point())


class Bursting(Exploding):
    """A finite loss whose third gradient is infinite."""

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        self.steps += 1
        value = model(batch.images).square().mean()
        weight = next(iter(model.parameters())).flatten()[0]
        return (value + (weight - weight.detach()).abs().sqrt() if self.steps > 2 else value), {}


def test_weights_that_are_no_numbers_are_not_kept(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    run.objective = Bursting()
    with pytest.raises(DivergedError, match="Some weights are no numbers at step 3. The last good checkpoint is kept"):
        train(run)
    from alu.storage import read_tensors

    kept = read_tensors(tmp_path / "checkpoint.safetensors")
    assert all(torch.isfinite(tensor).all() for tensor in kept.values() if tensor.is_floating_point())


def test_processes_share_one_stream_of_random_numbers() -> None:
    data, settings = small_data(), Settings(batch_size=16, augment="crop-flip")
    whole = next(iter(batches(data, settings, 1, 2)))
    shares = [next(iter(batches(data, settings, 1, 2, rank, 2))) for rank in range(2)]
    assert torch.equal(torch.cat([share.images for share in shares]), whole.images)
    assert torch.equal(torch.cat([share.labels for share in shares]), whole.labels)
    noise = [share.draws.normal(share.images) for share in shares]
    assert torch.equal(torch.cat(noise), whole.draws.normal(whole.images))


def test_augmentation_moves_and_mirrors() -> None:
    data = small_data(64)
    plain = next(iter(batches(data, Settings(batch_size=64), 0)))
    moved = next(iter(batches(data, Settings(batch_size=64, augment="crop-flip"), 0)))
    flipped = next(iter(batches(data, Settings(batch_size=64, augment="flip"), 0)))
    assert torch.equal(plain.labels, moved.labels)
    assert not torch.equal(plain.images, moved.images)
    same = (flipped.images == plain.images).flatten(1).all(1)
    mirrored = (flipped.images == plain.images.flip(3)).flatten(1).all(1)
    assert (same | mirrored).all()
    assert 10 <= int(mirrored.sum()) <= 54


def test_a_crop_is_a_window_of_the_reflected_image() -> None:
    data, settings = small_data(32), Settings(batch_size=32, augment="crop-flip", seed=5)
    found = next(iter(batches(data, settings, 3)))
    order = torch.randperm(32, generator=generator(5, "order", 3))
    stream = generator(5, "augment", 3, 0)
    shifts = torch.randint(0, 5, (32, 2), generator=stream).tolist()  # 2 pixels either way at 16 pixels
    mirrored = torch.randint(0, 2, (32,), generator=stream).tolist()
    padded = nn.functional.pad(data.images[order], (2, 2, 2, 2), mode="reflect")
    for image, (down, right), flip, whole in zip(found.images, shifts, mirrored, padded, strict=True):
        window = whole[:, down : down + 16, right : right + 16]
        assert torch.equal(image, window.flip(2) if flip else window)
    assert found.images.is_contiguous(memory_format=torch.channels_last)


def test_a_hole_is_cut_out_and_nothing_else_changes() -> None:
    data = small_data(64)
    moved = next(iter(batches(data, Settings(batch_size=64, augment="crop-flip"), 0)))
    cut = next(iter(batches(data, Settings(batch_size=64, augment="crop-flip-cutout"), 0)))
    gone = (cut.images != moved.images).any(1)
    assert (cut.images.permute(0, 2, 3, 1)[gone] == 0.5).all()
    sizes = gone.flatten(1).sum(1)
    assert int(sizes.max()) == 16, "a quarter of 16 pixels, squared"
    assert 8 < float(sizes.float().mean()) < 16, "some reach over the edge"
    assert len({tuple(row.nonzero()[0].tolist()) for row in gone if row.any()}) > 10, "in many places"


def test_the_curve_is_drawn(tmp_path: Path) -> None:
    from xml.etree import ElementTree

    train(small_run(tmp_path, epochs=2))
    with (tmp_path / "curve.jsonl").open("a") as file:
        file.write('{"step": 12, "lo')  # killed while it wrote
    draw_curve(tmp_path / "curve.jsonl", tmp_path / "curve.svg")
    root = ElementTree.parse(tmp_path / "curve.svg").getroot()
    texts = [node.text for node in root.iter() if node.tag.endswith("text")]
    assert {"loss", "accuracy", "cross entropy", "lr", "training", "held out", "step 12"} <= set(texts)
    rows = [json.loads(line) for line in (tmp_path / "curve.jsonl").read_text().splitlines()[:-1]]
    drawn = series(rows)
    assert [step for step, _ in drawn["accuracy"]["held out"]] == [6, 12]
    assert [step for step, _ in drawn["loss"]["training"]] == [6, 12]
    first = next(node for node in root.iter() if node.tag.endswith("polyline")).attrib["points"]
    before, after = (value for _, value in drawn["lr"]["training"])
    assert before > after
    assert first == "233.0,26.0 404.0,148.0", "the higher value is drawn higher, the later one to the right"


def test_a_curve_cut_short_is_mended(tmp_path: Path) -> None:
    run = small_run(tmp_path, epochs=3)

    def die(done: int, total: int, _: dict[str, float]) -> None:
        if done == 9:
            raise Killed

    with pytest.raises(Killed):
        train(run, die)
    with (tmp_path / "curve.jsonl").open("a") as file:
        file.write('{"step": 12, "lo')
    train(small_run(tmp_path, epochs=3))
    rows = [json.loads(line) for line in (tmp_path / "curve.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [6, 6, 12, 12, 18, 18]


class Fixed(nn.Module):
    """A VAE whose answers are known: mean 1, log-variance 0.5, and it decodes to 0.25."""

    def encode(self, images: Tensor) -> tuple[Tensor, Tensor]:
        code = torch.ones(len(images), 2, 1, 1)
        return code, 0.5 * code

    def decode(self, code: Tensor) -> Tensor:
        return torch.full((len(code), 1, 2, 2), 0.25)


def test_the_bound_by_hand() -> None:
    batch = Batch(torch.full((3, 1, 2, 2), 0.5), torch.zeros(3), Draws(generator(0, "x"), slice(0, 3), 3))
    loss, parts = Autoencoding(sigma=0.5).loss(Fixed(), batch)
    error = 4 * 0.25**2 / (2 * 0.5**2)
    divergence = 2 * 0.5 * (1.0 + math.exp(0.5) - 1.0 - 0.5)
    assert float(loss) == pytest.approx(error + divergence, rel=1e-6)
    assert float(parts["rmse"]) == pytest.approx(0.25, rel=1e-6)


def test_cross_entropy_by_hand() -> None:
    class Logits(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return torch.tensor([[2.0, 0.0], [0.0, 1.0]])

    batch = Batch(torch.zeros(2, 3, 4, 4), torch.tensor([0, 0]), Draws(generator(0, "x"), slice(0, 2), 2))
    loss, parts = Classification().loss(Logits(), batch)
    assert float(loss) == pytest.approx((math.log(1 + math.exp(-2)) + math.log(1 + math.exp(1))) / 2, rel=1e-6)
    assert float(parts["accuracy"]) == 0.5


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        ("constant", [1, 1, 1]),
        ("one-cycle", [0.001, 0.625, 0.001]),
        ("cosine", [1, 0.5, 0.001]),
        ("steps", [1, 0.2, 0.2]),
    ],
)
def test_schedules(schedule: str, rates: list[float]) -> None:
    settings = Settings(lr=1.0, schedule=schedule, drops=((5, 0.2),))  # type: ignore[arg-type]
    found = [settings.rate(step, 100, step // 10) for step in (0, 50, 100)]
    assert found == pytest.approx(rates, abs=1e-6)
