"""The other experiments as tables: timing, logit changes, features, pattern cost, one step, BPDA, artefacts."""

from __future__ import annotations

from statistics import fmean, median
from typing import Any

from alu.evaluation.intervals import Share
from alu.report.charts import bars, chart
from alu.report.paper import published
from alu.report.paper.results import Results, both, share, where
from alu.report.paper.shape import Shown, Table, incomplete, percent, side_by_side

NOTHING = "not measured yet"


def timing(results: Results) -> list[Shown]:
    """Ratios to N = 0 and to the bare classifier."""
    found = results.found("timing", "seconds")
    if not found:
        return [Table("Time", ["", ""], [["", NOTHING]])]
    middle, theirs = found["median"], published.TIMING
    rows = [["bare classifier", f"{1000 * middle['bare'] / found['n']:.2f}", "1.0", "–", "–"]]
    for steps, seconds in theirs.items():
        ours = middle[str(steps)]
        rows.append([f"N = {steps}", f"{1000 * ours / found['n']:.2f}", f"{ours / middle['bare']:.1f}",
                     f"{ours / middle['0']:.1f}", f"{seconds / theirs[0]:.1f}"])  # fmt: skip
    header = ["", "milliseconds an image", "times the bare classifier", "times N = 0", "times N = 0, the paper"]
    title = f"Median of {found['repeats']} interleaved runs, batch of {found['n']}"
    return [Table(title, header, rows)]


def logit_change(results: Results) -> list[Shown]:
    """Which logit falls most, the three cases, how far each kind of logit moves, and one image."""
    rows, made = [], []
    for key, found in results.cells("logit-change").items():
        cases = [percent(Share(found["case"].count(case), len(found["case"]))) for case in "123"]
        sizes = [f"{fmean(found[name]):+.2f}" if found[name] else "–" for name in ("true", "answered")]
        others = f"{fmean(found['others, mean size']):.2f}" if found["others, mean size"] else "–"
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
                rows.append(
                    [f"{name}, {logit} logit, keeps {kept}", *shares, f"{explained(row['non-robust'], row['all']):.2f}"]
                )
    header = ["", "robust features", "non-robust features", "irrelevant features", "R² of the paper's equation"]
    note = (
        "Part of the mean change that each kind of feature carries, and how much of the change's variance between "
        "images the non-robust part explains, a constant allowed."
    )
    return [Table("Who carries the logit change", header, rows or [["", *[NOTHING] * 4]], note)]


def _part(part: list[float], whole: list[float]) -> str:
    return f"{100 * fmean(part) / fmean(whole):.0f} %" if whole and fmean(whole) else "–"


def explained(part: list[float], whole: list[float]) -> float:
    """1 - the share of variance of `whole` that `part` plus a constant leaves over."""
    left = [one - other for one, other in zip(whole, part, strict=True)]
    spread = sum((value - fmean(whole)) ** 2 for value in whole)
    return 1 - sum((value - fmean(left)) ** 2 for value in left) / spread if spread else float("nan")


def pattern_cost(results: Results) -> list[Shown]:
    """Success and cost of each attack."""
    rows = []
    for key, found in results.cells("pattern-cost").items():
        right = found["right clean"]
        rows.append([key, percent(share(where(found["fooled"], right))), percent(share(where(found["case 3"], right))),
                     f"{found['seconds']:.1f}", f"{found['forwards'] / found['n']:.1f}",
                     f"{found['backwards'] / found['n']:.1f}"])  # fmt: skip
    header = ["classifier/attack", "fooled", "fooled in case 3", "seconds", "forward an image", "backward an image"]
    note = "Of the images that were right clean, percent."
    return [Table("Attacks that hold the true logit up", header, rows or [["", *[NOTHING] * 5]], note)]


def one_step(results: Results) -> list[Shown]:
    """The error before and after one step, and the rate's sign."""
    rows = []
    for key, found in results.cells("one-step").items():
        positive = Share(sum(rate > 0 for rate in found["rate"]), found["n"])
        rows.append([key, f"{median(found['error before']):.3g}", f"{median(found['error after']):.3g}",
                     f"{max(found['error after']):.3g}", percent(positive)])  # fmt: skip
    header = ["linear problem", "median error before", "median error after", "largest error after", "rate is positive"]
    note = "Error: distance of the output to the wanted one, as a share of it. The rate needs the true label."
    return [Table("One step with the best rate", header, rows or [["", *[NOTHING] * 4]], note)]


def bpda(results: Results) -> list[Shown]:
    """Each system under each attack, in both protocols."""
    names = dict.fromkeys(key.split("/")[0] for key in results.experiments.get("bpda", {}).get("cells", {}))
    rows, strict = [], []
    for name in names:
        cells = {column: results.found("bpda", f"{name}/{column}") for column in COLUMNS}
        union = results.found("bpda", f"{name}/adaptive")
        if not cells["clean"]:
            why = results.absent("bpda", f"{name}/clean")
            rows.append([name, why, *["–"] * 2])
            strict.append([name, why, *["–"] * 3])
            continue
        clean = cells["clean"]["outcome"]
        rows.append([name, *(percent(share(cell["outcome"])) if cell else "–" for cell in cells.values())])
        standing = [percent(share(both(clean, cell["outcome"]))) if cell else "–" for cell in cells.values()]
        strict.append([name, *standing, percent(share(union["adaptive"])) + incomplete(union) if union else "–"])
    header = ["system, reading", *COLUMNS.values()]
    return [
        Table("Right answers, percent (paper protocol)", header, rows or [["", *[NOTHING] * 3]]),
        Table("Right clean and right attacked, percent (standard protocol)", [*header, "adaptive union"],
              strict or [["", *[NOTHING] * 4]]),
    ]  # fmt: skip


COLUMNS = {"clean": "clean", "bpda-eot": "BPDA-EOT", "surrogate pgd": "surrogate PGD"}


def each_attack(results: Results) -> list[Shown]:
    """One table for each purifier: a row for each attack, a column for each reading."""
    cells = results.cells("each-attack")
    keys = [key.split("/") for key in cells]
    made: list[Shown] = []
    for purifier in dict.fromkeys(place.split(", ")[0] for place, _ in keys):
        readings = list(dict.fromkeys(place.split(", ")[1] for place, _ in keys if place.startswith(purifier)))
        rows = []
        for name in dict.fromkeys(name for place, name in keys if place.startswith(purifier)):
            row = [name]
            for reading in readings:
                found = cells.get(f"{purifier}, {reading}/{name}")
                row.append(_resisted(found, reading) if found else "–")
            rows.append(row)
        header = ["attack", *(f"{reading}, resisted" if reading == "abstain" else reading for reading in readings)]
        note = _case_three({key: found for key, found in cells.items() if key.startswith(purifier)})
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


def artefacts(results: Results) -> list[Shown]:
    """E1 to E5."""
    rows: list[list[str]] = []
    split = results.found("artefacts", "E1 and E5")
    if split:
        rows += _split(split)
    swapped, decoded = results.found("artefacts", "E2"), results.found("artefacts", "E3")
    if swapped:
        rows.append(["E2 attack told the next class: ALU answers the next class",
                     percent(share(swapped["answer is the swapped label"]))])  # fmt: skip
        rows.append(["E2 the same: ALU answers the true class", percent(share(swapped["answer is the true label"]))])
    if decoded:
        rows.append(
            ["E3 label decoded from the perturbation alone, linear probe", percent(share(decoded["linear probe"]))]
        )
        rows.append(["E3 the same, by the classifier shown the perturbation's negative",
                     percent(share(decoded["classifier on the negative"]))])  # fmt: skip
    controls = []
    for key, found in results.cells("artefacts").items():
        if key.startswith("E4/"):
            attacked = found["attacked"]
            chosen = (_alu(found["clean"]), _alu(attacked), attacked["purified"], attacked["input"]["flagged"])
            controls.append([key.removeprefix("E4/"), *(percent(share(digits)) for digits in chosen)])
    made: list[Shown] = [Table("E1, E2, E3, E5: input reading, PGD-20 on f", ["", "percent"], rows or [["", NOTHING]])]
    if controls:
        header = ["E4 purifier", "clean, ALU", "attacked, ALU", "attacked, purified only", "flagged"]
        made.append(Table("E4: other purifiers, percent (paper protocol)", header, controls))
    return made


def _alu(found: dict[str, Any]) -> str:
    return str(found["input"]["alu"])


def _split(split: dict[str, Any]) -> list[list[str]]:
    clean, attacked = split["clean"], split["attacked"]
    right, bare = _alu(clean), attacked["bare"]
    answer = _alu(attacked)
    first = where(answer, clean["bare"], "0")
    succeeded = "".join("1" if before == "1" and after == "0" else "0"
                        for before, after in zip(clean["bare"], bare, strict=True))  # fmt: skip
    return [
        ["clean images, ALU right", percent(share(right))],
        ["attacked images, ALU right (paper protocol)", percent(share(answer))],
        ["E1 attacked, clean answer of the bare classifier was right", percent(share(where(answer, clean["bare"])))],
        ["E1 attacked, clean answer of the bare classifier was wrong", percent(share(first)) if first else "–"],
        ["E5 attacked, counting only successful attacks", percent(share(where(answer, succeeded)))],
    ]
