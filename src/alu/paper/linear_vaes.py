"""VAEs with a linear decoder and a learned encoder, and classifiers on their outputs: trained by cells, in minutes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alu.paper.base import Workbench

if TYPE_CHECKING:
    from torch import nn

    from alu.models.deep_vae import DeepVAE, Encoder, Layout

START = "cifar10-standard"
"""The classifier that those on a VAE's outputs begin with."""


@dataclass(frozen=True)
class Linear:
    """A VAE with a linear decoder."""

    layout: Layout
    code: int
    encoder: Encoder

    def __str__(self) -> str:
        return f"{self.layout} {self.code}, {self.encoder}"


def linear_vae(bench: Workbench, one: Linear) -> DeepVAE:
    """A VAE with principal directions as its decoder, which stays; its encoder learns to give the best code."""
    from alu.models import deep_vae
    from alu.training.objectives import Autoencoding
    from alu.training.recipes import seeded
    from alu.training.recipes.deep import FITTED_ON, principal
    from alu.training.settings import Settings

    def build() -> DeepVAE:
        images, shape = _train_images(bench), {"layout": one.layout, "encoder": one.encoder}
        network: Any = seeded(lambda: deep_vae(code=one.code, width=bench.sizes["width"], **shape), bench.seed)
        principal(network, images.draw(min(FITTED_ON, len(images)), bench.seed).images).linear.requires_grad_(False)
        settings = Settings(
            epochs=bench.sizes["encoder epochs"], optimizer="adam", lr=2e-3, warmup=0.1, augment="flip", seed=bench.seed
        )
        _train(bench, str(one), network, Autoencoding(sigma=0.02), settings)
        return network  # type: ignore[no-any-return]

    return bench.once(("linear", str(one)), build)


def own_classifier(bench: Workbench, name: str, vae: DeepVAE) -> nn.Module:
    """`cifar10-standard`, fine-tuned on the outputs of a linear VAE: half of them through the encoder, half at the best
    code."""
    from alu.models import load
    from alu.training.purified import Unified
    from alu.training.settings import Settings

    def build() -> nn.Module:
        network = load(START)
        settings = Settings(
            epochs=bench.sizes["classifier epochs"], lr=0.05, weight_decay=5e-4, warmup=0.1, augment="crop-flip",
            seed=bench.seed,
        )  # fmt: skip
        whole_way = {"lr": 0.5, "solver": "gd", "schedule": "constant"}
        _train(bench, f"{name}, classifier", network, Unified(vae, 1, 0.5, whole_way), settings)
        return network

    return bench.once(("own", name), build)


def _train_images(bench: Workbench) -> Any:
    from alu import data

    return bench.once("train images", lambda: data.cifar10("train").draw(bench.sizes["train"], bench.seed))


def _train(bench: Workbench, name: str, network: nn.Module, objective: Any, settings: Any) -> None:
    """In a folder that the cells share, so that an interrupted run goes on."""
    from alu import data
    from alu.training.loop import Run, train

    folder = None if bench.shared is None else bench.shared / name
    validation = data.cifar10("validation").draw(bench.sizes["validation"])
    run = Run(network, objective, _train_images(bench), validation, settings, folder, str(bench.device))
    train(run, lambda done, total, _: bench.watch(f"Training {name}", done, total))
    network.eval().requires_grad_(False)
