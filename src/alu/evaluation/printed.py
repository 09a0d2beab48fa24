"""A result as text: what `print(result)` shows."""

from __future__ import annotations

from typing import Any

from alu.evaluation import metrics
from alu.evaluation.result import Result
from alu.evaluation.verdicts import bare_share, sentences


def text(result: Result) -> str:
    """The verdict first; then both protocols, every attack, obligations and diagnostics."""
    lines = [*opening(result), ""]
    robust, resisted = metrics.robust(result), metrics.resisted(result)
    lines += [
        f"clean accuracy            {metrics.clean(result)}",
        f"robust accuracy           {robust}   standard protocol: right under every attack and clean",
    ]
    for level, names in list(metrics.LEVELS.items())[:-1]:
        if any(record.knowledge == level for record in result.attacks):
            least = "at most " if metrics.bound_only(result, names) else ""
            lines.append(f"  {level + ' attacker':23} {least}{metrics.robust(result, names)}")
    lines += _bare(result)
    if any(not accepted for accepted in result.clean.accepted) or resisted.count != robust.count:
        lines.append(
            f"resisted                  {resisted}   right or rejected; clean images rejected: "
            f"{metrics.rejected_clean(result)}"
        )
    means = metrics.over_draws(result)
    if means is not None:
        clean, least = (f"{100 * mean:.1f} %" for mean in means)
        # At most: an image that one draw gets wrong has fallen, and is attacked no further.
        lines.append(
            f"mean over draws           clean {clean}, robust at most {least}; above, the worst of ten draws counts"
        )
    lines += _harmless(result)
    lines += ["", "attack (knowledge)                    images  broken  paper protocol: right      flagged"]
    for record in result.attacks:
        name = f"{record.name} ({record.knowledge})"
        if record.failed:
            lines.append(f"{name:36}  could not run: {record.failed}")
            continue
        share = metrics.paper(result, record)
        flags = metrics.flagged(record.judged) if metrics.scores(record.judged) else None
        lines.append(
            f"{name:36} {len(record.judged.images):7d} {metrics.broken(result, record):7d}  "
            f"{'' if share is None else str(share):25}  {'' if flags is None else f'{100 * flags.value:.0f} %'}"
        )
    lines.append("")
    for item in result.diagnostics:
        if item.verdict != "passed":
            lines.append(f"diagnostic {item.id}: {item.verdict}. {item.says}")
    passed = sum(item.verdict == "passed" for item in result.diagnostics)
    checked = f"{passed} of {len(result.diagnostics)} diagnostics passed."
    lines.append(checked if result.diagnostics or not result.shard[0] else "Diagnostics are run with shard 1.")
    origin = result.provenance
    lines.append(f"n = {len(result.labels)}, seed {origin['seed']}, commit {origin['commit']}, alu {origin['alu']}")
    return "\n".join(lines)


def _bare(result: Result) -> list[str]:
    """The bare classifier under its own attacks and under those that were made for it."""
    if result.bare is None:
        return []
    share, at_most = bare_share(result)
    names = ", ".join(record.name for record in result.bare.attacks if not record.failed)
    return [f"bare classifier           {'at most ' if at_most else ''}{share}   under its own attacks: {names}"]


def _harmless(result: Result) -> list[str]:
    """The harmless change that costs most."""
    found = dearest(result)
    if found is None:
        return []
    row, lost = found
    if lost <= 0:
        return ["harmless changes          none costs right answers beside the bare classifier"]
    bare, deployed = (f"{100 * row[name] / row['n']:.1f} %" for name in ("bare", "right"))
    strong = "" if row.get("moderate", True) else ", a strong one"
    says = f"{row['change']}{strong}, costs most: bare {bare}, deployed {deployed} (n = {row['n']})"
    return [f"harmless changes          {says}"]


def dearest(result: Result) -> tuple[dict[str, Any], float] | None:
    """The harmless change with the largest loss of right answers against the bare classifier, and that loss."""
    rows = [row for row in result.detection.get("harmless") or [] if "bare" in row and row["n"]]
    losses = [((row["bare"] - row["right"]) / row["n"], row) for row in rows]
    if not losses:
        return None
    lost, row = max(losses, key=lambda pair: pair[0])
    return row, lost


def opening(result: Result) -> list[str]:
    """The first lines: the verdict, then what was judged under what. Stamps stand in the very first line."""
    found = sentences(result)
    if found and (short := stamps(result, why=False)):
        found[0] = f"{', '.join(short)}: {found[0]}"
    return [*found, headline(result)]


def headline(result: Result) -> str:
    """What was judged under what, and whether the judgement is complete."""
    found = stamps(result)
    return (": ".join(found) + ": " if found else "") + judged(result)


def judged(result: Result) -> str:
    """What was judged under what."""
    threat = result.threat
    return (
        f"{result.subject['name']} on {result.dataset['name']}/{result.dataset['split']}, {threat['norm']} "
        f"eps {eps_text(threat['eps'], threat['norm'])}, suite {result.suite}, budget {result.budget}"
    )


def stamps(result: Result, why: bool = True) -> list[str]:
    """What keeps the result from being the whole judgement, and why."""
    part, parts = result.shard
    reasons = f" ({'; '.join(result.unmet)})" if why else ""
    found = [f"INCOMPLETE{reasons}"] if result.unmet else []
    return found + ([f"SHARD {part + 1} OF {parts}"] if parts > 1 else [])


def eps_text(eps: float, norm: str = "Linf") -> str:
    """8/255 where eps is a whole number of gray levels, else the number; in L2 always the number."""
    levels = eps * 255
    if norm != "Linf":
        return f"{eps:g}"
    return f"{round(levels * 2) / 2:g}/255" if abs(levels * 2 - round(levels * 2)) < 1e-6 else f"{eps:g}"
