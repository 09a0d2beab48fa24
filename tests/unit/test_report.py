"""The evaluation's page: every number on it is read back and compared with what the result says."""

from __future__ import annotations

import re
import statistics
from pathlib import Path

import pytest

import alu.report
from alu.errors import StorageError, UsageError
from alu.evaluation import metrics
from alu.evaluation.intervals import Share
from alu.evaluation.result import AttackRecord, Result
from alu.report.checks import EXPLAINED
from tests.unit import results
from tests.unit.pages import Page, read

Figures = dict[str, tuple[float, str]]
RATES = (0.001, 0.005, 0.01, 0.05)


def page(folder: Path, *shown: Result) -> Page:
    """The page of these results, written and read back from disk; the results went through JSON too."""
    loaded = []
    for index, result in enumerate(shown):
        result.save(folder / f"{index}.json")
        loaded.append(Result.load(folder / f"{index}.json"))
    alu.report.write(loaded, folder / "report.html")
    return read((folder / "report.html").read_text(encoding="utf-8"))


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
    return found


def attack(index: int, result: Result, record: AttackRecord, detector: bool) -> Figures:
    key, n = f"attack/{index}", len(record.judged.images)
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
        found |= bounded(f"{key}/{who}", metrics.beside(result, record.judged, who), n=False)
    if detector:
        found |= bounded(f"{key}/flagged", metrics.flagged(record.judged), n=False)
    if record.whole:
        found |= bounded(f"{key}/paper", metrics.paper(result, record), n=False)
        found |= bounded(f"{key}/alone", metrics.alone(result, record), n=False)
    return found


def detection(result: Result) -> Figures:
    facts, alarms = result.detection["detector"], Share(sum(result.clean.flagged), len(result.labels))
    found = whole("detector/images", facts["calibration_images"]) | counted("detector/alarms", alarms)
    found["detector/false_alarm"] = (facts["false_alarm"], f"{100 * facts['false_alarm']:g} %")
    for index, row in enumerate(result.detection["harmless"]):
        for what in ("flagged", "right"):
            found |= bounded(f"harmless/{index}/{what}", Share(row[what], row["n"]))
    for label in range(10):
        flags = [flag for flag, true in zip(result.clean.flagged, result.labels, strict=True) if true == label]
        found |= bounded(f"class/{label}", Share(sum(flags), len(flags)))
    negative = [score for score in result.clean.score if score is not None]
    for index, record in enumerate(result.attacks):
        if not record.judged.images:
            continue
        key, flagged = f"detected/{index}", Share(sum(record.judged.flagged), len(record.judged.flagged))
        found |= bounded(f"{key}/now", flagged)
        for rate in RATES:
            scores = [score for score in record.judged.score if score is not None]
            found |= bounded(f"{key}/{rate}", metrics.detected_at(negative, scores, rate))
        low = metrics.precision(flagged.interval[0], alarms.interval[1])
        high = metrics.precision(flagged.interval[1], alarms.interval[0])
        found[f"{key}/precision.low"] = (low, f"{100 * low:.2f}")
        found[f"{key}/precision.high"] = (high, f"{100 * high:.2f}")
        if alarms.count:
            value = metrics.precision(flagged.value, alarms.value)
            found[f"{key}/precision"] = (value, f"{100 * value:.2f} %")
    return found


def rest(result: Result) -> Figures:
    found = {f"curve/{name}/n": (float(rows[0]["n"]), str(rows[0]["n"])) for name, rows in result.curves.items()}
    groups = {"clean": [result.clean]}
    for record in result.attacks:
        groups.setdefault(record.knowledge, []).append(record.judged)
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
    blind = metrics.robust(result, ["oblivious"])
    broken = [(metrics.broken(result, record), len(record.judged.images)) for record in result.attacks]
    paper = [share for record in result.attacks if (share := metrics.paper(result, record)) is not None]
    flags = [Share(sum(record.judged.flagged), len(record.judged.flagged)) for record in result.attacks]
    flags = [share for share in flags if share.n >= 20]
    most = max(broken, key=lambda pair: pair[0])
    found = bounded("clean", clean, n=False) | whole("n", len(result.labels)) | bounded("robust", robust, n=False)
    idle = sum(not record.judged.images for record in result.attacks)
    if idle:
        found |= whole("idle", idle)
    found |= whole("attacks", len(result.attacks)) | whole("most/broken", most[0]) | whole("most/images", most[1])
    found |= bounded("paper/low", min(paper, key=lambda share: share.value), n=False)
    found |= bounded("paper/high", max(paper, key=lambda share: share.value), n=False)
    if rejected.count:
        found |= percent("rejected", rejected)
    if resisted != robust:
        found |= bounded("resisted", resisted, n=False) | percent("turned", rejected)
    if blind.count - robust.count >= 0.05 * blind.n:
        found |= percent("oblivious", blind) | percent("adaptive", robust)
    if result.detection:
        found |= counted("alarms", Share(sum(result.clean.flagged), len(result.labels)))
        found |= counted("flagged/most", max(flags, key=lambda share: share.value))
        found |= counted("flagged/least", min(flags, key=lambda share: share.value))
    if result.diagnostics:
        found |= whole("passed", sum(item.verdict == "passed" for item in result.diagnostics))
        found |= whole("diagnostics", len(result.diagnostics))
    return {f"found/{key}": value for key, value in found.items()}


def expected(result: Result, index: int = 0) -> Figures:
    """Every figure of a result's chapter, worked out from the result alone."""
    found = summary(result) | findings(result) | rest(result)
    for number, record in enumerate(result.attacks):
        found |= attack(number, result, record, bool(result.detection))
    if result.detection:
        found |= detection(result)
    return {f"result-{index}/{key}": value for key, value in found.items()}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("rule", ["alu", "abstain"])
def test_every_figure_equals_the_result(tmp_path: Path, rule: str, seed: int) -> None:
    result = results.result(130, seed, rule=rule)
    assert page(tmp_path, result).figures == expected(result)


def test_no_number_stands_outside_of_a_figure(tmp_path: Path) -> None:
    result = results.result(130)
    text = " ".join(page(tmp_path, result).loose)
    for record in result.attacks:
        text = text.replace(record.name, "")
    assert not re.findall(r"\d+", text)


def test_a_model_without_detector_and_purifier(tmp_path: Path) -> None:
    result = results.plain(60)
    found = page(tmp_path, result)
    assert found.figures == expected(result)
    assert "The detector" not in found.text
    assert "No diagnostic was run" in found.text
    assert found.points == {}


def test_points_of_the_charts_equal_the_result(tmp_path: Path) -> None:
    result = results.result(130)
    found = page(tmp_path, result)
    points = {}
    for name in ("eps", "steps"):
        for index, row in enumerate(result.curves[name]):
            points[f"result-0/curve/{name}/{index}"] = (float(index), row["right"] / row["n"])
    alarms = Share(sum(result.clean.flagged), 130).value
    accepted = Share(sum(score is not None and score <= results.THRESHOLD for score in result.clean.score), 130).value
    for index, one in [
        ("clean", result.clean),
        *((str(at), record.judged) for at, record in enumerate(result.attacks)),
    ]:
        answered = [
            answer != result.labels[image]
            for image, score, answer in zip(one.images, one.score, one.purified, strict=True)
            if score is not None and score <= results.THRESHOLD
        ]
        if len(answered) >= 10:
            points[f"result-0/risk/{index}"] = (accepted, sum(answered) / len(answered))
        if index != "clean":
            points[f"result-0/roc/{index}"] = (alarms, sum(one.flagged) / len(one.flagged))
    assert found.points == points
    pooled = [130, 260, 130, sum(len(record.judged.images) for record in result.attacks[3:])]
    assert [sum(counts) for counts in found.counts] == pooled


def test_a_heading_over_columns_stands_over_its_own(tmp_path: Path) -> None:
    page(tmp_path, results.result(130))
    heads = re.findall(r"<thead>(.*?)</thead>", (tmp_path / "report.html").read_text(encoding="utf-8"))
    found: dict[str, list[str]] = {}
    for over, head in (rows for rows in (head.split("</tr>")[:2] for head in heads) if rows[1]):
        columns = re.findall(r"<th>([^<]*)", head)
        for span, name in re.findall(r'colspan="(\d+)">([^<]*)<', over):
            found[name], columns = columns[: int(span)], columns[int(span) :]
        assert columns == []
    assert found["right on the same images"] == ["bare classifier", "purifier alone", "blur instead"]
    assert found["cost"] == ["median distance", "seconds", "passes per image"]


def test_several_results_stand_side_by_side(tmp_path: Path) -> None:
    shown = [results.result(60), results.result(60, 1, "other & co", "abstain"), results.result(40)]
    found = page(tmp_path, *shown)
    figures = {key: value for index, result in enumerate(shown) for key, value in expected(result, index).items()}
    for index, result in enumerate(shown):
        key = f"compare/{index}"
        figures |= bounded(f"{key}/clean", metrics.clean(result)) | bounded(f"{key}/resisted", metrics.resisted(result))
        figures |= percent(f"{key}/rejected", metrics.rejected_clean(result))
        for level, names in metrics.LEVELS.items():
            figures |= bounded(f"{key}/{level}", metrics.robust(result, names))
    only_first, only_second, chance = metrics.mcnemar(*shown[:2])
    figures |= whole("mcnemar/0/1/first", only_first) | whole("mcnemar/0/1/second", only_second)
    figures["mcnemar/0/1/p"] = (chance, f"{chance:.4f}")
    assert found.figures == figures
    assert found.text.count("these are on different ones") == 2


def test_a_comparison_of_unequal_opponents_says_so(tmp_path: Path) -> None:
    said = "attacked harder looks worse"
    first, second = results.result(40), results.result(40, 1)
    assert said not in page(tmp_path, first, second).text
    second.budget = "full" if first.budget != "full" else "quick"
    assert said in page(tmp_path, first, second).text
    second.budget, second.unmet = first.budget, ["no attack without gradients"]
    assert "not both complete" in page(tmp_path, first, second).text


def test_the_first_line_says_what_was_judged(tmp_path: Path) -> None:
    result = results.result(40)
    result.unmet, result.shard = ["no attack without <gradients>"], [0, 2]
    text = page(tmp_path, result).text.split()
    line = "INCOMPLETE (no attack without <gradients>)SHARD 1 OF 2VAE + ALU on cifar10/test, Linf eps 8/255, suite"
    start = " ".join(text)[: len(line) + 90]
    assert line in start
    assert "INCOMPLETE" not in page(tmp_path, results.result(40)).text


def test_a_figure_that_is_only_a_bound_says_so(tmp_path: Path) -> None:
    result = results.result(40)
    result.attacks.insert(0, result.attacks.pop(3))  # the decoy first: the others were kept from what it broke
    result.attacks[1].judged, result.attacks[1].distance = result.attacks[-1].judged, result.attacks[-1].distance
    assert metrics.bound_only(result, ["oblivious"])
    page(tmp_path, result, result)
    said = re.findall(r'at most <span class="figure" data-key="([\w/-]+)"', (tmp_path / "report.html").read_text())
    assert {"result-0/level/oblivious/robust", "result-0/level/oblivious/resisted", "compare/1/oblivious"} <= set(said)
    page(tmp_path, results.plain(40), results.plain(40))
    assert "at most <span" not in (tmp_path / "report.html").read_text()


def test_attacks_that_failed_or_saw_nothing_say_so(tmp_path: Path) -> None:
    result = results.result(40)
    for record in result.attacks[4:]:
        record.judged, record.distance = type(record.judged)(), []
    result.attacks[4].failed = "the model has no gradient <here>."
    result.attacks[3].notes = ["Warning: zero gradients"]
    text = page(tmp_path, result).text
    assert "Could not run: the model has no gradient <here>." in text
    assert "queryNo image was left standing when their turn came." in text
    assert "Under the worst of 5 attacks (1 of them had no image left to break)" in text
    assert "Warning: zero gradients" in text


def test_diagnostics_are_explained_and_failed_ones_stand_open(tmp_path: Path) -> None:
    result = results.result(40)
    found = page(tmp_path, result)
    assert found.verdicts == {item.id: item.verdict for item in result.diagnostics}
    for item in result.diagnostics:
        assert item.says in found.text
        assert EXPLAINED[item.id] in found.text
        assert f"docs/diagnostics.md#{item.id}" in found.text
        assert f"result-0-{item.id}" in found.anchors
    opened = re.findall(
        r'data-diagnostic="([\w-]+)" data-verdict="[\w ]+" open', (tmp_path / "report.html").read_text()
    )
    assert opened == ["more-steps"]


def test_every_diagnostic_there_is_has_an_explanation() -> None:
    source = Path(alu.report.__file__).parents[1] / "evaluation"
    texts = "".join(path.read_text() for path in source.glob("*.py"))
    made = set(re.findall(r'Diagnostic\(\s*"([a-z-]+)"', texts)) | set(re.findall(r'"([a-z-]+)": \(.+, "in ', texts))
    assert {"black-box", "noise", "batch-size", "eps-large"} <= made
    assert made <= set(EXPLAINED)
    documented = (source.parents[2] / "docs" / "diagnostics.md").read_text()
    assert set(re.findall(r"^## ([a-z-]+)$", documented, re.M)) == set(EXPLAINED)


def test_where_the_numbers_come_from(tmp_path: Path) -> None:
    result = results.result(40)
    facts = page(tmp_path, result).facts
    assert {name: facts[name] for name in result.provenance} == {k: str(v) for k, v in result.provenance.items()}
    assert facts["images"] == "40"
    assert facts["data set name"] == "cifar10"


def test_the_page_needs_nothing_from_outside(tmp_path: Path) -> None:
    found = page(tmp_path, results.result(40), results.plain(40))
    assert found.places
    assert [place for place in found.places if not place.startswith(("data:", "#"))] == []
    assert {place[1:] for place in found.places if place.startswith("#")} <= found.anchors
    text = (tmp_path / "report.html").read_text()
    assert not re.search(r"<script|https?://|@import|url\(", text)


def test_names_are_shown_as_they_are(tmp_path: Path) -> None:
    result = results.result(40, name="<script>alert('x')</script>")
    result.attacks[0].name = result.examples[0]["attack"] = "<b>bold</b>"
    result.classes = ["<i>", *result.classes[1:]]
    text = page(tmp_path, result).text
    assert "<script>alert('x')</script>" in text
    assert "<script" not in (tmp_path / "report.html").read_text()
    assert "<b>bold</b>" in text
    assert "<i>" in text


def test_many_classes_fit(tmp_path: Path) -> None:
    result = results.result(200)
    result.classes = [f"class {index}" for index in range(100)]
    for example in result.examples:
        example["before"], example["after"] = [0.5] * 100, [1.0] * 100
    result.labels[:100] = range(100)
    text = page(tmp_path, result).text
    assert "The 20 classes with most of them are shown." in text
    assert (tmp_path / "report.html").read_text().count('y="162"') == 0  # no example has an eleventh bar


def test_what_cannot_be_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to report"):
        alu.report.write([], tmp_path / "report.html")
    empty = results.result(40)
    empty.labels = []
    with pytest.raises(UsageError, match="holds no image"):
        alu.report.write([empty], tmp_path / "report.html")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="Cannot write"):
        alu.report.write([results.result(20)], tmp_path / "file" / "report.html")
    assert not (tmp_path / "report.html").exists()
