"""Other networks for the same images, whose adversarial images may transfer to the one under attack."""

from __future__ import annotations

from torch import nn

from alu import models
from alu.attacks.goals import refuses_by_search
from alu.data.dataset import Dataset
from alu.evaluation.subject import Subject
from alu.models.cards import Card, weight_hash

NOT_ROBUST = 1.0
"""Percent: a network with less accuracy under PGD-20 was not trained to withstand attacks."""

PLAIN = ("-standard", "-unified")


def other_networks(subject: Subject, dataset: Dataset) -> tuple[nn.Module, ...]:
    """A bundled classifier for the same classes and image size that is not the one under attack, where there is one;
    after it, for a defence that refuses by a search, all others."""
    own = weight_hash(subject.classifier) if isinstance(subject.classifier, nn.Module) else ""
    cards = {name: models.card(name) for name in models.names("classifier")}
    size = max(dataset.shape[1:])
    fit = [name for name, card in cards.items() if card.sha256 != own and card.classes == dataset.classes]
    # Plain networks first: which one is attacked must not change when a method's own classifier joins the package.
    first = sorted((name for name in fit if _transfers(cards[name], size)), key=lambda name: not name.endswith(PLAIN))
    # The classifier behind a search is a robust one, and images of a robust network transfer to it.
    robust = [name for name in fit if name not in first and _reads(cards[name], size)]
    chosen = [*first, *robust] if refuses_by_search(subject.defense) else first[:1]
    return tuple(models.load(name).to(subject.device) for name in chosen)


def _transfers(card: Card, size: int) -> bool:
    """Whether adversarial images of a network can be expected to transfer to most others: it reads images of this size,
    and was not trained to withstand attacks, as its robust accuracy shows."""
    robust = card.figures.get("PGD-20, 8/255", {}).get("percent", 100.0)
    return _reads(card, size) and robust < NOT_ROBUST


def _reads(card: Card, size: int) -> bool:
    """Whether a network reads images of this size by itself, as its clean accuracy on them shows."""
    reads = any(card.figures.get(figure) for figure in ("clean accuracy", "clean accuracy on bare images"))
    return bool(reads and card.architecture.get("size", 32) == size)
