"""Recipes: Python functions that return a ready training; `alu train RECIPE --set key=value` changes their settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from alu.errors import UsageError, nearest
from alu.training.recipes import cifar10, larger, own, paper
from alu.training.recipes.base import Recipe, seeded

RECIPES: dict[str, Callable[[], Recipe]] = {
    make.__name__.replace("_", "-"): make
    for make in (
        own.classifier,
        own.vae,
        cifar10.cifar10_vae,
        cifar10.cifar10_standard,
        cifar10.cifar10_unified,
        cifar10.cifar10_asymmetric,
        cifar10.cifar10_unet,
        cifar10.cifar10_at_first,
        cifar10.cifar10_at,
        cifar10.cifar10_trades,
        cifar10.cifar10_mart,
        cifar10.cifar10_fat,
        cifar10.cifar10_gairat,
        cifar10.cifar10_awp,
        cifar10.cifar10_smooth,
        cifar10.cifar10_smooth_50,
        larger.cifar100_standard,
        larger.cifar100_vae,
        larger.cifar100_unified,
        larger.cifar100_at,
        larger.cifar100_trades,
        larger.cifar100_mart,
        larger.cifar100_fat,
        larger.cifar100_gairat,
        larger.tiny_imagenet_standard,
        larger.tiny_imagenet_vae,
        larger.tiny_imagenet_unified,
        larger.tiny_imagenet_at,
        larger.tiny_imagenet_trades,
        larger.tiny_imagenet_mart,
        larger.tiny_imagenet_fat,
        larger.tiny_imagenet_gairat,
        paper.cifar10_paper_standard,
        paper.cifar10_paper_vae,
        paper.cifar10_paper_unified,
        paper.cifar10_paper_unet,
    )
}

__all__ = ["RECIPES", "Recipe", "recipe", "seeded"]


def recipe(name: str) -> Recipe:
    """The recipe of this name."""
    if name not in RECIPES:
        raise UsageError(f"There is no recipe {name!r}. {nearest(name, list(RECIPES))}")
    return replace(RECIPES[name](), name=name)
