"""Each attack alone: rejections count as resisted, and what pattern and decoy did is said below."""

from __future__ import annotations

from alu.paper.each_attack import Key, view
from alu.paper.store import Reading
from tests.paper.toys import note, results, rows

INPUT, ABSTAIN, VAE, ON_AT = Reading.INPUT, Reading.ABSTAIN, "cifar10-vae", "cifar10-vae on cifar10-at"


def test_each_attack_alone() -> None:
    cells = {
        Key(VAE, INPUT, "clean"): {"outcome": "1110"},
        Key(VAE, INPUT, "Pattern"): {"outcome": "0010", "case 3": "1000"},
        Key(VAE, ABSTAIN, "clean"): {"outcome": "1112"},
        Key(VAE, ABSTAIN, "Pattern"): {"outcome": "0212", "case 3": "0000"},
    }
    (table,) = view(results(cells))
    assert rows(table)["Pattern"][0].startswith("25.0 ")
    assert rows(table)["Pattern"][1].startswith("75.0 "), "rejected counts as resisted"
    assert "input 50.0" in note(table)
    assert "abstain 0.0" in note(table)
    assert "decoy" not in note(table)


def test_what_decoy_broke_was_flagged_or_not() -> None:
    cells = {
        Key(VAE, INPUT, "clean"): {"outcome": "1110"},
        Key(ON_AT, INPUT, "clean"): {"outcome": "11110"},
        Key(ON_AT, INPUT, "Decoy"): {"outcome": "00010", "flagged": "10111"},
    }
    plain, robust = view(results(cells))
    assert list(rows(plain)) == ["clean"], "another system's rows are not its own"
    assert "decoy broke, flagged: input 66.7 [20.8, 93.9] n=3." in note(robust), "two of three that were right clean"
