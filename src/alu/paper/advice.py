"""advice: who attacks you, what to use, what it costs and what it keeps; from the results of several experiments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from alu.paper import certificates, check, graded, robust_base, threats
from alu.paper.store import Measured, Reading, Results, both, ones
from alu.paper.views import Table
from alu.stats import Share

GRADED = '`alu fit`, rule "graded"'
ALU = "`alu fit --rule alu`"
NOISE = "Gaussian noise 0.1"
ATTACKED = "PGD-20, 8 of 255"
PROVEN = ("cifar10-smooth", 0.25)
"""The classifier whose certificates are quoted, and the radius."""
HEADER = ("who attacks you?", "what to use", "what it costs", "what it keeps")


def table(results: Results, costs: dict[str, Any]) -> Table:
    """One row for each attacker, weakest first. `costs` holds the ratios that `bench` measured, by their file's name; a
    row of which something was not measured is left out."""
    rows = [
        _row("nobody: noise, cameras, files", GRADED, _purifying(costs), _harmless(results)),
        _row("someone who does not know the defence", GRADED, _purifying(costs), _oblivious(results)),
        _row(
            "someone who transfers from another network",
            GRADED,
            _purifying(costs),
            _kept(results, "transfer", Reading.GRADED),
        ),
        _row("someone who asks many times", ALU, _purifying(costs), _kept(results, "query", Reading.INPUT)),
        _row("someone who knows everything", f'`alu.load("{check.BASE}+check")`', _checking(costs), _checked(results)),
        _row("anyone: it must be proven", f"`alu certify {PROVEN[0]}`", _certifying(costs), _proven(results)),
    ]
    note = (
        "Percent of test images [95 % interval], CIFAR-10, L∞ 8/255; the certificate: L2. In brackets the classifier "
        "alone. Costs in forward passes of the bare classifier."
    )
    return Table("What to use", HEADER, [row for row in rows if row], note)


def _row(who: str, use: str, cost: str, keeps: str) -> list[str]:
    return [who, use, cost or "–", keeps] if keeps else []


def _share(digits: str | Share) -> str:
    share = ones(digits) if isinstance(digits, str) else digits
    low, high = share.interval
    return f"{100 * share.value:.1f} [{100 * low:.0f}, {100 * high:.0f}] n={share.n}"


def _beside_bare(cells: Iterable[tuple[str, Measured | None]], rule: str) -> str:
    """What a rule answers rightly on each kind of images, beside the bare classifier; empty if one is missing."""
    found = []
    for name, measured in cells:
        if measured is None:
            return ""
        found.append(f"{name}: {_share(measured[rule])} (alone {100 * ones(measured['bare']).value:.1f})")
    return "; ".join(found)


def _harmless(results: Results) -> str:
    names = {"clean": graded.CLEAN, NOISE: NOISE}
    return _beside_bare(((shown, results.get(graded.Key(name))) for shown, name in names.items()), "graded")


def _oblivious(results: Results) -> str:
    return _beside_bare([("PGD-20", results.get(graded.Key(ATTACKED)))], "graded")


def _kept(results: Results, attacker: str, reading: Reading) -> str:
    """What a reading keeps from an attacker of the threat-model card, beside the bare classifier."""
    ours, bare = (results.get(threats.Key(one, attacker)) for one in (reading, Reading.BARE))
    if ours is None or bare is None:
        return ""
    kept, alone = (both(cell["clean"], cell["attacked"]) for cell in (ours, bare))
    return f"{attacker}: {_share(kept)} (alone {100 * ones(alone).value:.1f})"


def _checked(results: Results) -> str:
    measured = check.joined(results, check.BASE, check.CHECK, check.DEPLOYED)
    base = robust_base.standing(results, check.BASE)
    if measured is None or not base:
        return ""
    answered = Share(sum(digit != "2" for digit in measured["clean"]), measured["n"])
    alone = base[check.WIDEST][: measured["n"]]
    return (
        f"never answered wrongly: {_share(measured['stands'])} (alone {_share(alone)}); it answers "
        f"{_share(answered)} of clean pictures"
    )


def _proven(results: Results) -> str:
    name, radius = PROVEN
    cell = certificates.joined(results, name)
    return f"right and proven within {radius:g} (L2): {_share(certificates.proven(cell, radius))}" if cell else ""


def _purifying(costs: dict[str, Any]) -> str:
    batch = next((one for one in costs.get("latency", {}).get("batches", ()) if one["batch"] == 64), None)
    if batch is None:
        return ""
    ratios = batch["ratio_to_classifier"]
    return f"{ratios['VAE + ALU, N=20']:.0f} (20 latent steps); without steps {ratios['VAE + ALU, N=0']:.1f}"


def _checking(costs: dict[str, Any]) -> str:
    found = costs.get("refusal", {}).get("check")
    if found is None:
        return ""
    return (
        f"{found['answered']['ratio_to_forward']:.0f} (answered), {found['refused']['ratio_to_forward']:.0f} (refused)"
    )


def _certifying(costs: dict[str, Any]) -> str:
    found = costs.get("refusal", {}).get("certificate")
    if not isinstance(found, dict):  # a sentence where the network is missing
        return ""
    return f"{found['median_samples']:.0f} noisy copies for half of the pictures"
