"""The threat-model card counts images that were right clean."""

from __future__ import annotations

from alu.paper.store import Reading
from alu.paper.threats import Key, view
from tests.paper.toys import points, results, rows


def test_the_card_counts_images_that_were_right_clean() -> None:
    cells = {
        Key(Reading.INPUT, "oblivious"): {"clean": "1100", "attacked": "1011"},
        Key(Reading.INPUT, "adaptive"): {"clean": "1111", "adaptive": "0002", "unmet": ["one more"]},
    }
    card, figure = view(results(cells))
    assert rows(card)["oblivious"][2].startswith("25.0 ")
    assert rows(card)["adaptive"][2].startswith("0.0 ")
    assert rows(card)["adaptive"][2].endswith("INCOMPLETE (one more)")
    assert rows(card)["query"][2] == "not measured yet"
    assert rows(card)["surrogate"][1] == "–", "it is about the purifier, of which the bare classifier has none"
    assert points(figure) == {"oblivious: ALU, input reading": "0.25", "adaptive: ALU, input reading": "0.0"}
