"""Every figure that a result's page must show, worked out from the result alone."""

from __future__ import annotations

import statistics

from alu.evaluation import metrics
from alu.evaluation.beside import beside_confidence
from alu.evaluation.result import AttackRecord, Result
from alu.evaluation.verdicts import Verdict, bare_share, verdicts
from alu.stats import Share

Figures = dict[str, tuple[float, str]]
RATES = (0.001, 0.005, 0.01, 0.05)


def percent(key: str, share: Share) -> Figures:
    return {key: (share.value, f"{100 * share.value:.1f} %")}


def whole(key: str, value: int) -> Figures:
    return {key: (value, str(value))}


def bounded(key: str, share: Share | None, n: bool = True) -> Figures:
    if share is None:
        return {}
    low, high = share.interval
    ends = {f"{key}.low": (low, f"{100 * low:.1f}"), f"{key}.high": (high, f"{100 * high:.1f}")}
    return percent(key, share) | ends | (whole(f"{key}.n", share.n) if n else {})


def counted(key: str, share: Share) -> Figures:
    return percent(key, share) | whole(f"{key}.count", share.count) | whole(f"{key}.n", share.n)


def summary(result: Result) -> Figures:
    rejected = metrics.rejected_clean(result)
    outcomes = metrics.outcomes(result.clean, result.labels).values()
    found = bounded("clean", metrics.clean(result)) | bounded("clean/rejected", rejected)
    found |= bounded("clean/resisted", Share(sum(value != metrics.WRONG for value in outcomes), len(outcomes)))
    known: list[str] = []
    for level in ("oblivious", "surrogate", "adaptive"):
        known.append(level)
        key = f"level/{level}"
        found |= whole(f"{key}/attacks", sum(record.knowledge in known for record in result.attacks))
        found |= bounded(f"{key}/robust", metrics.robust(result, known))
        found |= bounded(f"{key}/resisted", metrics.resisted(result, known)) | percent(f"{key}/rejected", rejected)
    for verdict in verdicts(result):
        key = "clean/bare" if verdict.level == "clean" else f"level/{verdict.level}/bare"
        found |= bounded(key, verdict.bare)
    return found


def verdict_figures(key: str, verdict: Verdict) -> Figures:
    """The figures of one sentence of the verdict."""
    key = f"{key}/verdict/{verdict.level}"
    chance = f"= {verdict.p:.3f}" if verdict.p >= 0.001 else "< 0.001"
    found = percent(f"{key}/bare", verdict.bare) | percent(f"{key}/defended", verdict.defended)
    found |= whole(f"{key}/n", verdict.bare.n) | {f"{key}/p": (verdict.p, chance)}
    if verdict.rejected is not None:
        found |= percent(f"{key}/rejected", verdict.rejected)
        if verdict.level != "clean":
            found |= percent(f"{key}/right", verdict.right)
    return found


def bare(result: Result) -> Figures:
    """The classifier under its own attacks."""
    if result.bare is None:
        return {}
    kept = bare_share(result)[0]
    found = bounded("bare/kept", kept, n=False) | whole("bare/n", kept.n)
    for index, record in enumerate(result.bare.attacks):
        mine = attack(index, result.bare, record, False)
        left_out = ("distance", "paper", "paper.low", "paper.high")
        found |= {f"bare/{key}": value for key, value in mine.items() if key.split("/")[-1] not in left_out}
    return found


def refusal(result: Result) -> Figures:
    """The defence beside its base and its rival, and who is silenced."""
    if result.subject["rule"] != "abstain":
        return {}
    found: Figures = {}
    for at, one in (("base", result.bare), ("rival", result.rival), ("own", result)):
        if one is None:
            continue
        outcomes = metrics.outcomes(one.clean, one.labels)
        answered = [value for value in outcomes.values() if value != metrics.REJECTED]
        correct, n = answered.count(metrics.CORRECT), len(outcomes)
        broken = {image for image, value in metrics.worst(one).items() if value == metrics.WRONG}
        kept = sum(value == metrics.CORRECT and image not in broken for image, value in outcomes.items())
        rar = bare_share(result)[0] if at == "base" else Share(kept, n)
        found |= bounded(f"refusal/{at}/coverage", Share(len(answered), n)) | bounded(f"refusal/{at}/rar", rar)
        found |= bounded(f"refusal/{at}/answered", Share(correct, len(answered)))
        found |= bounded(f"refusal/{at}/clean", Share(correct, n))
    if "denial" in result.curves:
        found |= whole("refusal/denial/n", result.curves["denial"][0]["n"])
    beside = beside_confidence(result)
    if beside is not None:
        given = {"coverage": beside.coverage[0], "rival_coverage": beside.coverage[1], "confidence": beside.confidence}
        for name, share in {**given, "defended": beside.defended}.items():
            found |= percent(f"beside/{name}", share)
        ends = {"": beside.difference.value, ".low": beside.difference.interval[0]}
        for end, value in {**ends, ".high": beside.difference.interval[1]}.items():
            found[f"beside/difference{end}"] = (value, f"{100 * value:+.1f}")
        found |= whole("beside/n", beside.defended.n)
        found["beside/p"] = (beside.p, f"= {beside.p:.3f}" if beside.p >= 0.001 else "< 0.001")
    return found


def harmless(result: Result) -> Figures:
    """Right answers on harmless changes, and what is lost where that is more than two points."""
    rows = result.detection.get("harmless") or []
    found = whole("harmless/n", rows[0]["n"]) if rows else {}
    columns = ["bare", "purified", "right", "flagged", *(["rejected"] if result.subject["rule"] == "abstain" else [])]
    for index, row in enumerate(rows):
        for name in columns:
            found |= bounded(f"harmless/{index}/{name}", Share(row[name], row["n"]), n=False)
        lost = (max(row["bare"], row["purified"]) - row["right"]) / row["n"]
        if lost > 0.02:
            found[f"harmless/{index}/lost"] = (lost, f"{100 * lost:.1f}")
    return found


def known(key: str, share: Share | None) -> Figures:
    """Nothing of fewer than twelve images: their interval may span more than half of everything."""
    return {} if share is None or share.n < 12 else bounded(key, share)


def attack(index: int, result: Result, record: AttackRecord, detector: bool) -> Figures:
    key, n = f"attack/{index}", len(record.answers.images)
    if not n:
        return {}
    middle = statistics.median(record.distance)
    found = whole(f"{key}/images", n) | whole(f"{key}/broken", metrics.broken(result, record))
    found |= {
        f"{key}/distance": (middle, f"{255 * middle:.1f}/255"),
        f"{key}/seconds": (record.seconds, f"{record.seconds:.1f}"),
        f"{key}/forwards": (record.forwards / n, f"{record.forwards / n:.1f}"),
        f"{key}/backwards": (record.backwards / n, f"{record.backwards / n:.1f}"),
    }
    for who in ("bare", "purified", "control"):
        found |= bounded(f"{key}/{who}", metrics.beside(result, record.answers, who), n=False)
    if detector:
        found |= bounded(f"{key}/flagged", metrics.flagged(record.answers), n=False)
    if record.whole:
        found |= bounded(f"{key}/paper", metrics.paper(result, record), n=False)
        found |= bounded(f"{key}/standard", metrics.robust_under(result, record), n=False)
    return found


def detection(result: Result) -> Figures:
    facts, alarms = result.detection["detector"], Share(sum(result.clean.flagged), len(result.labels))
    found = whole("detector/images", facts["calibration_images"]) | counted("detector/alarms", alarms)
    found["detector/false_alarm"] = (facts["false_alarm"], f"{100 * facts['false_alarm']:g} %")
    for label in range(10):
        flags = [flag for flag, true in zip(result.clean.flagged, result.labels, strict=True) if true == label]
        found |= known(f"class/{label}", Share(sum(flags), len(flags)))
    negative = [score for score in result.clean.score if score is not None]
    for index, record in enumerate(result.attacks):
        if not record.answers.images:
            continue
        key, flagged = f"detected/{index}", Share(sum(record.answers.flagged), len(record.answers.flagged))
        found |= known(f"{key}/now", flagged)
        for rate in RATES:
            scores = [score for score in record.answers.score if score is not None]
            found |= known(f"{key}/{rate}", metrics.detected_at(negative, scores, rate))
        low = metrics.precision(flagged.interval[0], alarms.interval[1])
        high = metrics.precision(flagged.interval[1], alarms.interval[0])
        if high - low > 0.5:
            continue
        found[f"{key}/precision.low"] = (low, f"{100 * low:.2f}")
        found[f"{key}/precision.high"] = (high, f"{100 * high:.2f}")
        if alarms.count:
            value = metrics.precision(flagged.value, alarms.value)
            found[f"{key}/precision"] = (value, f"{100 * value:.2f} %")
    return found


def rest(result: Result) -> Figures:
    found = {
        f"curve/{name}/n": (float(result.curves[name][0]["n"]), str(result.curves[name][0]["n"]))
        for name in ("eps", "steps")
        if name in result.curves
    }
    groups = {"clean": [result.clean]}
    for record in result.attacks:
        groups.setdefault(record.knowledge, []).append(record.answers)
    for name, parts in groups.items():
        pairs = [pair for judged in parts for pair in zip(judged.rise_true, judged.rise_other, strict=True)]
        if pairs:
            found |= counted(f"changes/{name}", Share(sum(true > other for true, other in pairs), len(pairs)))
    for index, example in enumerate(result.examples):
        found |= whole(f"example/{index}/number", result.numbers[example["image"]])
        found[f"example/{index}/score"] = (example["score"], f"{example['score']:.1f}")
    return found


def findings(result: Result) -> Figures:
    """What the sentences at the top must say."""
    clean, robust, resisted = metrics.clean(result), metrics.robust(result), metrics.resisted(result)
    rejected = metrics.rejected_clean(result)
    broken = [(metrics.broken(result, record), len(record.answers.images)) for record in result.attacks]
    paper = [share for record in result.attacks if (share := metrics.paper(result, record)) is not None]
    flags = [Share(sum(record.answers.flagged), len(record.answers.flagged)) for record in result.attacks]
    flags = [share for share in flags if share.n >= 20]
    most = max(broken, key=lambda pair: pair[0])
    found = bounded("clean", clean, n=False) | whole("n", len(result.labels)) | bounded("robust", robust, n=False)
    idle = sum(not record.answers.images for record in result.attacks)
    if idle:
        found |= whole("idle", idle)
    found |= whole("attacks", len(result.attacks)) | whole("most/broken", most[0]) | whole("most/images", most[1])
    found |= bounded("paper/low", min(paper, key=lambda share: share.value), n=False)
    found |= bounded("paper/high", max(paper, key=lambda share: share.value), n=False)
    if rejected.count:
        found |= percent("rejected", rejected)
    if resisted != robust:
        found |= bounded("resisted", resisted, n=False) | percent("clean_rejected", rejected)
    if result.detection:
        found |= counted("alarms", Share(sum(result.clean.flagged), len(result.labels)))
        found |= counted("flagged/most", max(flags, key=lambda share: share.value))
        found |= counted("flagged/least", min(flags, key=lambda share: share.value))
    if result.diagnostics:
        found |= whole("passed", sum(item.status == "passed" for item in result.diagnostics))
        found |= whole("diagnostics", len(result.diagnostics))
    return {f"findings/{key}": value for key, value in found.items()}


def expected(result: Result, index: int = 0) -> Figures:
    """Every figure of a result's chapter, worked out from the result alone."""
    found = summary(result) | findings(result) | rest(result) | bare(result) | harmless(result) | refusal(result)
    for verdict in verdicts(result):
        found |= verdict_figures("", verdict)
    for number, record in enumerate(result.attacks):
        found |= attack(number, result, record, bool(result.detection))
    if result.detection:
        found |= detection(result)
    return {f"result-{index}/{key.removeprefix('/')}": value for key, value in found.items()}
