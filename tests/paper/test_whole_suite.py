"""All attacks together: a rejection is no right answer, and what is missing is said."""

from __future__ import annotations

from alu.paper.store import Column, Reading
from alu.paper.whole_suite import Key, view
from tests.paper.toys import results, rows

VAE, INPUT = "cifar10-vae", Reading.INPUT


def test_all_attacks_together() -> None:
    union = {"adaptive": "0020", "clean": "1110", "unmet": [], "failed": {}}
    cells = {
        Key(VAE, INPUT, "clean"): {"outcome": "1110"},
        Key(VAE, INPUT, "Decoy"): {"outcome": "0010"},
        Key(VAE, INPUT, Column.PGD_ON_F): {"outcome": "1111"},
        Key(VAE, INPUT, "standard"): union,
        Key(VAE, INPUT, "quick"): {**union, "adaptive": "1000", "failed": {"soft": "broke"}},
        Key("cifar10-pca", Reading.PURIFIED, "quick"): {**union, "adaptive": "1100"},
    }
    (table,) = view(results(cells))
    clean, oblivious, decoy, boost, standard, quick = rows(table)["cifar10-vae, input"]
    assert (clean[:5], oblivious[:5], decoy[:5], boost) == ("75.0 ", "100.0", "25.0 ", "–")
    assert standard.startswith("0.0 "), "a rejection is no right answer"
    assert quick.startswith("25.0 ")
    assert quick.endswith("INCOMPLETE (soft failed)")
    assert rows(table)["cifar10-pca, purified"][:5] == ["–"] * 5
