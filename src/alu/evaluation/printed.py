"""A result as text: what `print(result)` shows."""

from __future__ import annotations

from alu.evaluation import metrics
from alu.evaluation.result import Result


def text(result: Result) -> str:
    """Both protocols, every attack, obligations and diagnostics."""
    lines = [headline(result), ""]
    robust, resisted = metrics.robust(result), metrics.resisted(result)
    lines += [
        f"clean accuracy            {metrics.clean(result)}",
        f"robust accuracy           {robust}   standard protocol: right under every attack and clean",
    ]
    for level, names in list(metrics.LEVELS.items())[:-1]:
        if any(record.knowledge == level for record in result.attacks):
            least = "at most " if metrics.bound_only(result, names) else ""
            lines.append(f"  {level + ' attacker':23} {least}{metrics.robust(result, names)}")
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


def headline(result: Result) -> str:
    """The first line: what was judged under what, and whether the judgement is complete."""
    found = stamps(result)
    return (": ".join(found) + ": " if found else "") + judged(result)


def judged(result: Result) -> str:
    """What was judged under what."""
    threat = result.threat
    return (
        f"{result.subject['name']} on {result.dataset['name']}/{result.dataset['split']}, {threat['norm']} "
        f"eps {eps_text(threat['eps'], threat['norm'])}, suite {result.suite}, budget {result.budget}"
    )


def stamps(result: Result) -> list[str]:
    """What keeps the result from being the whole judgement."""
    part, parts = result.shard
    found = [f"INCOMPLETE ({'; '.join(result.unmet)})"] if result.unmet else []
    return found + ([f"SHARD {part + 1} OF {parts}"] if parts > 1 else [])


def eps_text(eps: float, norm: str = "Linf") -> str:
    """8/255 where eps is a whole number of gray levels, else the number; in L2 always the number."""
    levels = eps * 255
    if norm != "Linf":
        return f"{eps:g}"
    return f"{round(levels * 2) / 2:g}/255" if abs(levels * 2 - round(levels * 2)) < 1e-6 else f"{eps:g}"
