"""Each attack by itself: rejections count as resisted, and a note says what pattern and decoy did. All together: a
rejection is no right answer, and what is missing is named."""

from __future__ import annotations

from alu.paper.adaptive import Key, SuiteKey, view, view_suite
from alu.paper.store import Column, Reading
from tests.paper.toys import note, results, rows

INPUT, ABSTAIN, VAE, ON_AT = Reading.INPUT, Reading.ABSTAIN, "cifar10-vae", "cifar10-vae on cifar10-at"


def test_each_attack_by_itself() -> None:
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


def test_all_attacks_together() -> None:
    union = {"adaptive": "0020", "clean": "1110", "unmet": [], "failed": {}}
    cells = {
        SuiteKey(VAE, INPUT, "clean"): {"outcome": "1110"},
        SuiteKey(VAE, INPUT, "Decoy"): {"outcome": "0010"},
        SuiteKey(VAE, INPUT, Column.PGD_ON_F): {"outcome": "1111"},
        SuiteKey(VAE, INPUT, "standard"): union,
        SuiteKey(VAE, INPUT, "quick"): {**union, "adaptive": "1000", "failed": {"soft": "broke"}},
        SuiteKey("cifar10-pca", Reading.PURIFIED, "quick"): {**union, "adaptive": "1100"},
    }
    (table,) = view_suite(results(cells))
    clean, oblivious, decoy, boost, standard, quick = rows(table)["cifar10-vae, input"]
    assert (clean[:5], oblivious[:5], decoy[:5], boost) == ("75.0 ", "100.0", "25.0 ", "–")
    assert standard.startswith("0.0 "), "a rejection is no right answer"
    assert quick.startswith("25.0 ")
    assert quick.endswith("INCOMPLETE (soft failed)")
    assert rows(table)["cifar10-pca, purified"][:5] == ["–"] * 5
