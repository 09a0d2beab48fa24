"""Recipes: trainings by name; `alu train RECIPE --set key=value` changes their settings."""

from __future__ import annotations

from dataclasses import replace

from alu.errors import check_choice
from alu.training.recipes.base import Recipe, seeded
from alu.training.recipes.deep import DEEP
from alu.training.recipes.learned import LEARNED
from alu.training.recipes.methods import METHODS
from alu.training.recipes.own import OWN
from alu.training.recipes.paper import PAPER
from alu.training.recipes.zoo import CIFAR10, CIFAR100, TINY_IMAGENET

RECIPES: dict[str, Recipe] = {**OWN, **CIFAR10, **DEEP, **CIFAR100, **TINY_IMAGENET, **LEARNED, **METHODS, **PAPER}

__all__ = ["RECIPES", "Recipe", "recipe", "seeded"]


def recipe(name: str) -> Recipe:
    """The recipe of this name."""
    check_choice("recipe", name, RECIPES)
    return replace(RECIPES[name], name=name)
