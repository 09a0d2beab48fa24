"""The other experiments as tables: timing, logit changes, features, pattern cost, one step, BPDA, each attack."""

from __future__ import annotations

from statistics import median, quantiles
from typing import Any

from alu.evaluation.intervals import Share
from alu.evaluation.resampling import explained, mean, ratio
from alu.report.charts import bars, chart
from alu.report.paper import published
from alu.report.paper.results import Results, both, incomplete, share, where
from alu.report.paper.shape import Shown, Table, percent, side_by_side

NOTHING = "not measured yet"


def timing(results: Results) -> list[Shown]:
    """Ratios to N = 0 and to the bare classifier."""
    found = results.found("timing", "seconds")
    if not found:
        return [Table("Time", ["", ""], [["", NOTHING]])]
    middle, each, theirs = found["median"], found["seconds"], published.TIMING
    rows = [["bare classifier", f"{1000 * middle['bare'] / found['n']:.2f}", "1.0", "–", "–"]]
    for steps, seconds in theirs.items():
        ours = f"{1000 * middle[str(steps)] / found['n']:.2f}"
        times = [_times(each[str(steps)], each[other]) for other in ("bare", "0")]
        rows.append([f"N = {steps}", ours, *times, f"{seconds / theirs[0]:.1f}"])
    header = ["", "milliseconds an image", "times the bare classifier", "times N = 0", "times N = 0, the paper"]
    title = f"Median of {found['repeats']} interleaved runs, batch of {found['n']}; ratios with their quartiles"
    return [Table(title, header, rows)]


def _times(one: list[float], other: list[float]) -> str:
    """The ratio of two columns of seconds: each repetition is compared with itself, so that a pause hits one ratio."""
    low, middle, high = quantiles([a / b for a, b in zip(one, other, strict=True)], n=4, method="inclusive")
    return f"{middle:.1f} [{low:.1f}, {high:.1f}]"


def logit_change(results: Results) -> list[Shown]:
    """Which logit falls most, the three cases, how far each kind of logit moves, and one image."""
    rows, made = [], []
    for key, found in results.cells("logit-change").items():
        cases = [percent(Share(found["case"].count(case), len(found["case"]))) for case in "123"]
        sizes = [mean(found[name]).shown("+.2f") if found[name] else "–" for name in ("true", "answered")]
        others = mean(found["others, mean size"]).shown() if found["others, mean size"] else "–"
        rows.append([key, percent(share(found["true falls most"])), *cases, *sizes, others])
        if "example" in found and key.endswith("standard/pgd-20"):
            shown = found["example"]
            drawing = bars(shown["classes"], shown["before"], shown["after"], shown["true"])
            caption = "One image's logits: clean (grey) and under PGD-20 (blue); the true class in bold"
            made.append(side_by_side(chart(caption, drawing, note="The image whose true logit fell by the median.")))
    header = ["classifier/attack", "true logit falls most", "case 1", "case 2", "case 3", "true, mean change",
              "answered, mean change", "others, mean size of change"]  # fmt: skip
    note = f"Successful attacks on images that were right clean. The paper: {100 * published.TRUE_FALLS_MOST:.2f} %."
    return [Table("Logit changes, percent of successful attacks", header, rows, note), *made]


def features(results: Results) -> list[Shown]:
    """How much of the change non-robust features carry."""
    rows = []
    for name, found in results.cells("features").items():
        for kept, parts in found["kept"].items():
            for logit in ("true", "adversarial"):
                row = parts[logit]
                shares = [_part(row[group], row["all"]) for group in ("robust", "non-robust", "irrelevant")]
                fit = explained(row["non-robust"], row["all"]).shown() if row["all"] else "–"
                rows.append([f"{name}, {logit} logit, keeps {kept}", *shares, fit])
    header = ["", "robust features", "non-robust features", "irrelevant features", "R² of the paper's equation"]
    note = (
        "Part of the mean change that each kind of feature carries, and how much of the change's variance between "
        "images the non-robust part explains, a constant allowed."
    )
    return [Table("Who carries the logit change", header, rows or [["", *[NOTHING] * 4]], note)]


def _part(part: list[float], whole: list[float]) -> str:
    return ratio(part, whole).shown(".0%") if whole else "–"


def pattern_cost(results: Results) -> list[Shown]:
    """Success and cost of each attack."""
    rows = []
    for key, found in results.cells("pattern-cost").items():
        right = found["right clean"]
        rows.append([key, percent(share(where(found["fooled"], right))), percent(share(where(found["case 3"], right))),
                     f"{found['seconds']:.1f}", f"{found['forwards'] / len(where(right, right)):.1f}",
                     f"{found['backwards'] / len(where(right, right)):.1f}"])  # fmt: skip
    header = ["classifier/attack", "fooled", "fooled in case 3", "seconds", "forward an image", "backward an image"]
    note = "Of the images that were right clean, percent."
    return [Table("Attacks that hold the true logit up", header, rows or [["", *[NOTHING] * 5]], note)]


def one_step(results: Results) -> list[Shown]:
    """The error before and after one step, and the rate's sign."""
    rows = []
    for key, found in results.cells("one-step").items():
        positive = Share(sum(rate > 0 for rate in found["rate"]), found["n"])
        exists = percent(share(found["some rate is right"])) if "some rate is right" in found else "–"
        rows.append([key, f"{median(found['error before']):.3g}", f"{median(found['error after']):.3g}",
                     f"{max(found['error after']):.3g}", percent(positive), exists])  # fmt: skip
    header = ["linear problem", "median error before", "median error after", "largest error after",
              "best rate is positive", "some positive rate gives the right answer"]  # fmt: skip
    note = "Error: distance of the output to the wanted one, as a share of it. The rate needs the true label."
    return [Table("One step with the best rate", header, rows or [["", *[NOTHING] * 5]], note)]


def bpda(results: Results) -> list[Shown]:
    """Each system under each attack, in both protocols."""
    names = dict.fromkeys(key.split("/")[0] for key in results.experiments.get("bpda", {}).get("cells", {}))
    rows, strict = [], []
    for name in names:
        cells = {column: results.found("bpda", f"{name}/{column}") for column in COLUMNS}
        union = results.found("bpda", f"{name}/adaptive")
        if not cells["clean"]:
            why = results.absent("bpda", f"{name}/clean")
            rows.append([name, why])
            strict.append([name, why])
            continue
        clean = cells["clean"]["outcome"]
        rows.append([name, *(percent(share(cell["outcome"])) if cell else "–" for cell in cells.values())])
        standing = [percent(share(both(clean, cell["outcome"]))) if cell else "–" for cell in cells.values()]
        strict.append([name, *standing, percent(share(results.together(name))) + incomplete(union) if union else "–"])
    header = ["system, reading", *COLUMNS.values()]
    return [
        Table("Right answers, percent (paper protocol)", header, rows or [["", *[NOTHING] * 3]], IDENTITY),
        Table("Right clean and right attacked, percent (standard protocol)", [*header, "every attack together"],
              strict or [["", *[NOTHING] * 4]]),
    ]  # fmt: skip


IDENTITY = (
    "BPDA takes the derivative of purification for that of the identity. Where the classifier reads features there is "
    "no identity to take, as the paper says; the attack then goes backward through encoder and inner decoder."
)
COLUMNS = {"clean": "clean", "bpda-eot": "BPDA-EOT", "surrogate pgd": "surrogate PGD"}


def each_attack(results: Results) -> list[Shown]:
    """One table for each purifier: a row for each attack, a column for each reading."""
    cells = results.cells("each-attack")
    keys = [key.split("/") for key in cells]
    made: list[Shown] = []
    for purifier in dict.fromkeys(place.split(", ")[0] for place, _ in keys):
        readings = list(dict.fromkeys(place.split(", ")[1] for place, _ in keys if place.startswith(f"{purifier}, ")))
        rows = []
        for name in dict.fromkeys(name for place, name in keys if place.startswith(f"{purifier}, ")):
            row = [name]
            for reading in readings:
                found = cells.get(f"{purifier}, {reading}/{name}")
                row.append(_resisted(found, reading) if found else "–")
            rows.append(row)
        header = ["attack", *(f"{reading}, resisted" if reading == "abstain" else reading for reading in readings)]
        own = {key: found for key, found in cells.items() if key.startswith(f"{purifier}, ")}
        note = " ".join(filter(None, (_case_three(own), _flagged_broken(own))))
        made.append(Table(f"{purifier}: right answers, percent (abstain: right or rejected)", header, rows, note))
    return made or [Table("Each attack", ["", ""], [["", NOTHING]])]


def _resisted(found: dict[str, Any], reading: str) -> str:
    outcome = found["outcome"]
    standing = outcome.count("1") + (outcome.count("2") if reading == "abstain" else 0)
    return percent(Share(standing, len(outcome)))


def _case_three(cells: dict[str, Any]) -> str:
    """Of pattern's successes, how many are the paper's case 3."""
    parts = []
    for key, found in cells.items():
        clean = cells.get(key.replace("/Pattern", "/clean"))
        if key.endswith("/Pattern") and clean:
            won = "".join("1" if before == "1" and after == "0" else "0"
                          for before, after in zip(clean["outcome"], found["outcome"], strict=True))  # fmt: skip
            third = where(found["case 3"], won)
            if third:
                parts.append(f"{key.split('/')[0].split(', ')[1]} {percent(share(third))}")
    return "Pattern's successes that are case 3: " + "; ".join(parts) + "." if parts else ""


def _flagged_broken(cells: dict[str, Any]) -> str:
    """Of the images that decoy broke, how many were flagged: answered by the class whose logit rose most."""
    parts = []
    for key, found in cells.items():
        clean, (place, name) = cells.get(key.replace("/Decoy", "/clean")), key.split("/")
        reading = place.rsplit(", ", 1)[1]
        if name == "Decoy" and clean and reading in ("input", "reconstruction"):
            broken = where(where(found["flagged"], clean["outcome"]), where(found["outcome"], clean["outcome"]), "0")
            if broken:
                parts.append(f"{reading} {percent(share(broken))}")
    return "Of the images that decoy broke, flagged: " + "; ".join(parts) + "." if parts else ""


ALONE = {"clean": "clean", "pgd-20 on f": "PGD-20 on f, paper protocol", "Decoy": "decoy alone", "Boost": "boost alone"}
TOGETHER = {"standard": "all attacks, budget standard", "quick": "all attacks, budget quick"}


def whole_suite(results: Results) -> list[Shown]:
    """A row for each defence: clean, under what does not know it, under two attacks alone, and under all together."""
    cells = results.cells("whole-suite")
    rows = []
    for place in dict.fromkeys(key.split("/")[0] for key in cells):
        row = [place]
        for name in ALONE:
            found = cells.get(f"{place}/{name}")
            row.append(percent(share(found["outcome"])) if found else "–")
        for budget in TOGETHER:
            found = cells.get(f"{place}/{budget}")
            row.append(percent(share(found["adaptive"])) + incomplete(found) if found else "–")
        rows.append(row)
    header = ["purifier, reading", *ALONE.values(), *TOGETHER.values()]
    note = "All attacks together in the standard protocol: right clean and right under each of them."
    return [Table("Right answers, percent", header, rows or [["", *[NOTHING] * 6]], note)]
