"""A result as text: what `print(result)` shows. No torch here."""

from __future__ import annotations

from typing import Any

from alu.evaluation import metrics
from alu.evaluation.result import AttackRecord, Result
from alu.evaluation.verdicts import bare_share, sentences


def text(result: Result) -> str:
    """The verdict first; then both protocols, every attack, and what the evaluation checked about itself."""
    return "\n".join(
        [*opening(result), "", *_accuracies(result), "", *_attacks(result), "", *_diagnostics(result), _origin(result)]
    )


def opening(result: Result) -> list[str]:
    """The first lines: the verdict, then what was evaluated. The very first line says if the result is partial."""
    lines = sentences(result)
    if lines and (short := stamps(result, why=False)):
        lines[0] = f"{', '.join(short)}: {lines[0]}"
    return [*lines, headline(result)]


def headline(result: Result) -> str:
    """What was evaluated, and what the result lacks."""
    return ": ".join([*stamps(result), setting(result)])


def setting(result: Result) -> str:
    """What was evaluated: subject, images, threat model, suite and budget."""
    threat = result.threat
    return (
        f"{result.subject['name']} on {result.dataset['name']}/{result.dataset['split']}, {threat['norm']} "
        f"eps {eps_text(threat['eps'], threat['norm'])}, suite {result.suite}, budget {result.budget}"
    )


def stamps(result: Result, why: bool = True) -> list[str]:
    """INCOMPLETE if required attacks are missing, SHARD if it is one part of several; empty for a whole result."""
    part, parts = result.shard
    reasons = f" ({'; '.join(result.unmet)})" if why else ""
    incomplete = [f"INCOMPLETE{reasons}"] if result.unmet else []
    return incomplete + ([f"SHARD {part + 1} OF {parts}"] if parts > 1 else [])


def eps_text(eps: float, norm: str = "Linf") -> str:
    """8/255 where eps is a whole or half number of gray levels, else the number; in L2 always the number."""
    levels = eps * 255
    if norm != "Linf":
        return f"{eps:g}"
    return f"{round(levels * 2) / 2:g}/255" if abs(levels * 2 - round(levels * 2)) < 1e-6 else f"{eps:g}"


def _accuracies(result: Result) -> list[str]:
    robust, resisted = metrics.robust(result), metrics.resisted(result)
    lines = [
        f"clean accuracy            {metrics.clean(result)}",
        f"robust accuracy           {robust}   standard protocol: correct when clean and under every attack",
    ]
    for level, names in list(metrics.LEVELS.items())[:-1]:
        if any(record.knowledge == level for record in result.attacks):
            bound = "at most " if metrics.bound_only(result, names) else ""
            lines.append(f"  {level + ' attacker':23} {bound}{metrics.robust(result, names)}")
    lines += _bare(result)
    if any(not accepted for accepted in result.clean.accepted) or resisted.count != robust.count:
        lines.append(
            f"resisted                  {resisted}   correct or rejected; clean images rejected: "
            f"{metrics.rejected_clean(result)}"
        )
    means = metrics.over_draws(result)
    if means is not None:
        clean, attacked = (f"{100 * mean:.1f} %" for mean in means)
        # At most: an image that one draw gets wrong counts as broken, and is attacked no further.
        lines.append(
            f"mean over draws           clean {clean}, robust at most {attacked}; above, the worst of ten draws counts"
        )
    return lines + _harmless(result)


def _bare(result: Result) -> list[str]:
    """The bare classifier under the attacks on it alone, and under the oblivious ones."""
    if result.bare is None:
        return []
    share, at_most = bare_share(result)
    names = ", ".join(record.name for record in result.bare.attacks if not record.failed)
    return [f"bare classifier           {'at most ' if at_most else ''}{share}   under its own attacks: {names}"]


def _harmless(result: Result) -> list[str]:
    """The harmless change that costs most."""
    costliest = costliest_change(result)
    if costliest is None:
        return []
    row, lost = costliest
    if lost <= 0:
        return ["harmless changes          none costs correct answers compared with the bare classifier"]
    bare, deployed = (f"{100 * row[name] / row['n']:.1f} %" for name in ("bare", "right"))
    strong = "" if row.get("moderate", True) else " (strong)"
    words = f"{row['change']}{strong} costs most: bare {bare}, deployed {deployed} (n = {row['n']})"
    return [f"harmless changes          {words}"]


def costliest_change(result: Result) -> tuple[dict[str, Any], float] | None:
    """The harmless change with the largest loss of correct answers against the bare classifier, and that loss."""
    rows = [row for row in result.detection.get("harmless") or [] if "bare" in row and row["n"]]
    losses = [((row["bare"] - row["right"]) / row["n"], row) for row in rows]
    if not losses:
        return None
    lost, row = max(losses, key=lambda pair: pair[0])
    return row, lost


def _attacks(result: Result) -> list[str]:
    head = "attack (knowledge)                    images  broken  paper protocol: correct    flagged"
    return [head, *(_attack(result, record) for record in result.attacks)]


def _attack(result: Result, record: AttackRecord) -> str:
    name = f"{record.name} ({record.knowledge})"
    if record.failed:
        return f"{name:36}  could not run: {record.failed}"
    correct = metrics.paper(result, record)
    flags = metrics.flagged(record.answers) if metrics.scores(record.answers) else None
    return (
        f"{name:36} {len(record.answers.images):7d} {metrics.broken(result, record):7d}  "
        f"{'' if correct is None else str(correct):25}  {'' if flags is None else f'{100 * flags.value:.0f} %'}"
    )


def _diagnostics(result: Result) -> list[str]:
    items = result.diagnostics
    lines = [f"diagnostic {item.id}: {item.status}. {item.says}" for item in items if item.status != "passed"]
    if not items and result.shard[0]:
        return ["Diagnostics are run with shard 1."]
    return [*lines, f"{sum(item.status == 'passed' for item in items)} of {len(items)} diagnostics passed."]


def _origin(result: Result) -> str:
    origin = result.provenance
    return f"n = {len(result.labels)}, seed {origin['seed']}, commit {origin['commit']}, alu {origin['alu']}"
