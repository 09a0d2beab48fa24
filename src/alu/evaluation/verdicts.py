"""A result in words: whether the defence helps compared with the bare classifier, and what `print(result)` shows.

No torch here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alu.evaluation import metrics
from alu.evaluation.beside import SIGNIFICANT, Number, beside_confidence, beside_parts, in_words
from alu.stats import Share, sign_test

if TYPE_CHECKING:
    from alu.evaluation.result import Answers, AttackRecord, Result

WHO = {
    "adaptive": "Against an attacker who knows it",
    "surrogate": "Against an attacker who knows the classifier and the purifier's networks",
    "oblivious": "Against an attacker who does not know it",
    "clean": "Without an attack",
}
"""The attackers, the one who knows most first."""
WHAT = {
    "helps": "this defence helps",
    "harms": "this defence makes things worse",
    "unclear": "this defence cannot be told apart from no defence",
}


@dataclass(frozen=True)
class Verdict:
    """The defence beside the bare classifier for one attacker, on the same images."""

    level: str
    """"adaptive", "surrogate", "oblivious", or "clean": no attack."""
    defended: Share
    """Images that the defence keeps: answered correctly or, where the rule rejects, answered correctly when clean and
    never wrongly under attack (RAR)."""
    bare: Share
    """Images that the bare classifier keeps: answered correctly."""
    only_defended: int
    """Images that only the defence keeps."""
    only_bare: int
    p: float
    """Exact two-sided p-value that the two are equally good, from the images that only one of them keeps."""
    verdict: str
    """"helps", "harms" or "unclear"."""
    right: Share
    """Images that the defence answers correctly."""
    rejected: Share | None = None
    """Clean images that are rejected, where the rule rejects; under attack a rejection then counts as kept."""
    at_most: tuple[bool, bool] = (False, False)
    """Whether the figures of defence and bare classifier are upper bounds."""


def verdicts(result: Result) -> list[Verdict]:
    """One for each attacker with at least one attack that ran, the one who knows most first; none for a bare model.

    Both sides are attacked equally hard: by the same images where the attacker does not know the defence, and each by
    the attacks that know it best where he does. The surrogate attacks add nothing against the bare classifier.
    """
    if not result.clean.bare:
        return []
    known = [level for level in metrics.LEVELS if metrics.ran(result, (level,))]
    if result.bare is None:
        known = [level for level in known if level != "adaptive"]
    return [_verdict(result, level) for level in WHO if level in (*known, "clean")]


def _verdict(result: Result, level: str) -> Verdict:
    names = metrics.LEVELS.get(level, ())
    by_image = metrics.worst(result, names)
    right = {image for image, value in by_image.items() if value == metrics.CORRECT}
    every = (result.clean, *(record.answers for record in result.attacks))
    rejects = result.subject.get("rule") == "abstain" or any(not all(answers.accepted) for answers in every)
    # A rejected image is a loss if it is clean, and kept if it is attacked.
    kept = metrics.kept(result, names) if rejects else right
    bare, n = _bare_kept(result, level), len(by_image)
    only_defended, only_bare = len(kept - bare), len(bare - kept)
    p = sign_test(only_defended, only_bare)
    word = "unclear" if p >= SIGNIFICANT else "helps" if only_defended > only_bare else "harms"
    values = (metrics.CORRECT, metrics.REJECTED) if rejects else (metrics.CORRECT,)
    at_most = (
        metrics.bound_only(result, names, values) or (level == "adaptive" and not result.complete),
        _bare_bound(result, level, bare),
    )
    return Verdict(
        level, Share(len(kept), n), Share(len(bare), n), only_defended, only_bare, p, word, Share(len(right), n),
        metrics.rejected_clean(result) if rejects else None, at_most,
    )  # fmt: skip


def bare_share(result: Result) -> tuple[Share, bool]:
    """What the bare classifier keeps under every attack on it, and whether that is an upper bound."""
    kept = _bare_kept(result, "adaptive")
    return Share(len(kept), len(result.labels)), _bare_bound(result, "adaptive", kept)


def _bare_kept(result: Result, level: str) -> set[int]:
    """Images that the bare classifier answers correctly, clean and under every attack that this attacker has on it."""

    def correct(answers: Answers) -> set[int]:
        pairs = zip(answers.images, answers.bare, strict=True)
        return {image for image, answer in pairs if answer == result.labels[image]}

    kept = correct(result.clean)
    if level != "clean":
        for record in metrics.ran(result, ("oblivious",)):
            kept -= set(record.answers.images) - correct(record.answers)
    if level == "adaptive" and result.bare is not None:
        kept &= {image for image, value in metrics.worst(result.bare).items() if value == metrics.CORRECT}
    return kept


def _bare_bound(result: Result, level: str, kept: set[int]) -> bool:
    """Whether an attack was not run on an image that is kept, or a required attack is missing."""
    if level == "clean":
        return False
    missed = any(not kept <= set(record.answers.images) for record in metrics.ran(result, ("oblivious",)))
    if level != "adaptive" or result.bare is None:
        return missed
    return missed or not result.bare.complete or metrics.bound_only(result.bare, metrics.LEVELS["adaptive"])


def sentence_parts(verdict: Verdict) -> list[str | Number]:
    """A verdict in words, with its figures apart for pages that mark them."""

    def percent(name: str, share: Share, at_most: bool = False) -> list[str | Number]:
        return ["at most " if at_most else "", (name, share.value, f"{100 * share.value:.1f} %")]

    attacked, rejects = verdict.level != "clean", verdict.rejected is not None
    counting = ", counting a refusal under attack as kept" if attacked and rejects else ""
    p_value = f"= {verdict.p:.3f}" if verdict.p >= 0.001 else "< 0.001"
    parts = [
        f"{WHO[verdict.level]}, {WHAT[verdict.verdict]}{counting}: bare ",
        *percent("bare", verdict.bare, verdict.at_most[1]), ", defended ",
        *percent("defended", verdict.defended, verdict.at_most[0]), " (n = ",
        ("n", verdict.bare.n, str(verdict.bare.n)), ", p ", ("p", verdict.p, p_value), ").",
    ]  # fmt: skip
    if attacked and rejects:
        parts += [" Correct answers only: defended ", *percent("right", verdict.right), "."]
    if verdict.rejected is not None:
        parts += [" Clean images rejected: ", *percent("rejected", verdict.rejected), "."]
    return parts


def sentence(verdict: Verdict) -> str:
    """A verdict in words."""
    return in_words(sentence_parts(verdict))


def unknown(result: Result) -> list[str]:
    """What cannot be decided, in a sentence, if the bare classifier was not attacked by itself."""
    if result.bare is not None or not result.clean.bare or not metrics.ran(result, ("adaptive",)):
        return []
    why = "it is not known whether this defence helps: the bare classifier was not attacked by itself."
    return [f"{WHO['adaptive']}, {why}"]


def sentences(result: Result) -> list[str]:
    """All verdicts in words."""
    beside = beside_confidence(result)
    return [
        *unknown(result),
        *map(sentence, verdicts(result)),
        *([] if beside is None else [in_words(beside_parts(beside))]),
    ]


def text(result: Result) -> str:
    """The verdict first; then both protocols, every attack, and what the evaluation checked about itself.

    The very first line says if the result is partial.
    """
    verdict = sentences(result)
    if verdict and (short := stamps(result, why=False)):
        verdict[0] = f"{', '.join(short)}: {verdict[0]}"
    head = "attack (knowledge)                    images  broken  paper protocol: correct    flagged"
    attacks = [head, *(_attack(result, record) for record in result.attacks)]
    attacks += [f"left out: {line}" for line in result.left_out]
    origin = result.provenance
    return "\n".join([
        *verdict, headline(result), "", *_accuracies(result), "", *attacks, "", *_diagnostics(result),
        f"n = {len(result.labels)}, seed {origin['seed']}, commit {origin['commit']}, alu {origin['alu']}",
    ])  # fmt: skip


def headline(result: Result) -> str:
    """What was evaluated, and what the result lacks."""
    return ": ".join([*stamps(result), title(result)])


def title(result: Result) -> str:
    """What was evaluated: subject, images, threat model, suite and budget."""
    dataset = result.dataset
    return f"{result.subject['name']} on {dataset['name']}/{dataset['split']}, {setting(result)}"


def setting(result: Result) -> str:
    """How it was attacked: threat model, suite and budget."""
    norm, eps = result.threat["norm"], result.threat["eps"]
    return f"{norm} eps {eps_text(eps, norm)}, suite {result.suite}, budget {result.budget}"


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
    if result.bare is not None:
        bare, at_most = bare_share(result)
        attacks = ", ".join(record.name for record in result.bare.attacks if not record.failed)
        lines.append(
            f"bare classifier           {'at most ' if at_most else ''}{bare}   under its own attacks: {attacks}"
        )
    if any(not accepted for accepted in result.clean.accepted) or resisted.count != robust.count:
        lines += [
            f"robust or refused (RAR)   {metrics.robust_or_refused(result)}   correct clean, never wrong under attack",
            _answered(result, "answered when clean"),
            f"resisted                  {resisted}   correct or rejected, clean images too",
        ]
    if result.rival is not None:
        attacks = ", ".join(record.name for record in result.rival.attacks if not record.failed)
        lines += [
            f"refusal by confidence     {metrics.robust_or_refused(result.rival)}   RAR of its own under {attacks}",
            _answered(result.rival, "  answered when clean"),
        ]
    if curve := metrics.denial(result):
        norm = result.threat["norm"]
        radii = ", ".join(f"{100 * share.value:.1f} % at {eps_text(eps, norm)}" for eps, share in curve)
        lines.append(
            f"never silenced            {radii} (n = {curve[0][1].n}): correct, and never refused or wrong within"
        )
    means = metrics.over_draws(result)
    if means is not None:
        clean, attacked = (f"{100 * mean:.1f} %" for mean in means)
        # At most: an image that one draw gets wrong counts as broken, and is attacked no further.
        lines.append(
            f"mean over draws           clean {clean}, robust at most {attacked}; figures above: the worst of ten draws"
        )
    return lines + _harmless(result)


def _answered(result: Result, name: str) -> str:
    """Coverage, and how many of the answers given are correct."""
    return f"{name:25} {metrics.coverage(result)}   of these correct: {metrics.right_when_answered(result) or 'none'}"


def _harmless(result: Result) -> list[str]:
    """The harmless change that costs most correct answers compared with the bare classifier."""
    rows = [row for row in result.detection.get("harmless") or [] if "bare" in row and row["n"]]
    if not rows:
        return []
    row = max(rows, key=lambda row: (row["bare"] - row["right"]) / row["n"])
    if row["bare"] <= row["right"]:
        return ["harmless changes          none costs correct answers compared with the bare classifier"]
    bare, deployed = (f"{100 * row[name] / row['n']:.1f} %" for name in ("bare", "right"))
    strong = "" if row.get("moderate", True) else " (strong)"
    words = f"{row['change']}{strong} costs most: bare {bare}, deployed {deployed} (n = {row['n']})"
    return [f"harmless changes          {words}"]


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
