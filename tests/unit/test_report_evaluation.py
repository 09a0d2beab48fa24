"""The evaluation's page: every number on it is read back and compared with what the result says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import alu.report
from alu.errors import StorageError, UsageError
from alu.evaluation import metrics
from alu.evaluation.result import Result
from alu.evaluation.verdicts import bare_share, verdicts
from alu.report import evaluation
from alu.report.charts import bars
from alu.report.page import environment
from alu.stats import Share
from tests.unit import results
from tests.unit.expected import bounded, expected, percent, verdict_figures, whole
from tests.unit.pages import Page, read
from tests.unit.results import CLASSES

EXPLAINED: dict[str, str] = environment().get_template("diagnostics.html.j2").module.EXPLAINED  # type: ignore[attr-defined]


def page(folder: Path, *shown: Result) -> Page:
    """The page of these results, written and read back from disk; the results went through JSON too."""
    loaded = []
    for index, result in enumerate(shown):
        result.save(folder / f"{index}.json")
        loaded.append(Result.load(folder / f"{index}.json"))
    alu.report.write(loaded, folder / "report.html")
    return read((folder / "report.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("rule", ["alu", "abstain"])
def test_every_figure_equals_the_result(tmp_path: Path, rule: str, seed: int) -> None:
    result = results.result(130, seed, rule=rule)
    assert page(tmp_path, result).figures == expected(result)


def test_a_refusing_defence_stands_beside_its_base_and_its_rival(tmp_path: Path) -> None:
    result = results.refusing(130)
    found = page(tmp_path, result)
    assert found.figures == expected(result)
    assert "refusal by confidence" in found.text
    assert "Left out: there is nothing to smooth." in found.text
    drawn = {key: point for key, point in found.points.items() if "/denial/" in key}
    assert drawn == {f"result-0/refusal/denial/{at}": (at, right / 130) for at, right in enumerate((40, 31, 9))}


@pytest.mark.parametrize("result", [results.result(130), results.refusing(130)])
def test_no_number_stands_outside_of_a_figure(tmp_path: Path, result: Result) -> None:
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
    risks: dict[str, dict[str, float]] = {"clean": {}}
    flags: dict[str, dict[str, float]] = {}
    for index, record in [("clean", None), *((str(at), record) for at, record in enumerate(result.attacks))]:
        one = result.clean if record is None else record.answers
        answered = [
            answer != result.labels[image]
            for image, score, answer in zip(one.images, one.score, one.purified, strict=True)
            if score is not None and score <= results.THRESHOLD
        ]
        level = "clean" if record is None else record.knowledge
        if len(answered) >= 12:
            risks.setdefault(level, {})[index] = sum(answered) / len(answered)
        if record is not None and len(one.images) >= 12:
            flags.setdefault(level, {})[index] = sum(one.flagged) / len(one.flagged)
    for values in risks.values():  # for each attacker the attack with most wrong answers
        worst = max(values, key=lambda index: values[index])
        points[f"result-0/risk/{worst}"] = (accepted, values[worst])
    for values in flags.values():  # and the one that is flagged least
        hidden = min(values, key=lambda index: values[index])
        points[f"result-0/roc/{hidden}"] = (alarms, values[hidden])
    assert found.points == points
    pooled = [130, 260, 130, sum(len(record.answers.images) for record in result.attacks[3:])]
    assert [sum(counts) for counts in found.counts] == pooled


def test_a_heading_over_columns_stands_over_its_own(tmp_path: Path) -> None:
    page(tmp_path, results.result(130))
    heads = re.findall(r"<thead>(.*?)</thead>", (tmp_path / "report.html").read_text(encoding="utf-8"), re.S)
    found: dict[str, list[str]] = {}
    for over, head in (rows for rows in (head.split("</tr>")[:2] for head in heads) if rows[1].strip()):
        columns = re.findall(r'<th scope="col">([^<]*)', head)
        for span, name in re.findall(r'colspan="(\d+)">([^<]*)<', over):
            found[name], columns = columns[: int(span)], columns[int(span) :]
        assert columns == []
    assert found["correct on the same images"] == ["bare classifier", "purifier only", "blur instead"]
    assert found["cost"] == ["median distance", "seconds", "passes per image"]


def test_several_results_stand_side_by_side(tmp_path: Path) -> None:
    shown = [results.result(60), results.result(60, 1, "other & co", "abstain"), results.result(40)]
    found = page(tmp_path, *shown)
    figures = {key: value for index, result in enumerate(shown) for key, value in expected(result, index).items()}
    for index, result in enumerate(shown):
        key = f"compare/{index}"
        figures |= bounded(f"{key}/clean", metrics.clean(result), n=False)
        figures |= bounded(f"{key}/resisted", metrics.resisted(result), n=False)
        figures |= percent(f"{key}/rejected", metrics.rejected_clean(result))
        for level, names in metrics.LEVELS.items():
            figures |= bounded(f"{key}/{level}", metrics.robust(result, names), n=False)
        figures |= bounded(f"{key}/bare", bare_share(result)[0], n=False) | verdict_figures(key, verdicts(result)[0])
    only_first, only_second, chance = metrics.mcnemar(*shown[:2])
    figures |= whole("mcnemar/0/1/first", only_first) | whole("mcnemar/0/1/second", only_second)
    figures["mcnemar/0/1/p"] = (chance, f"{chance:.4f}")
    assert found.figures == figures
    assert found.text.count("these are on different ones") == 2


def test_a_comparison_of_unequal_opponents_says_so(tmp_path: Path) -> None:
    warning = "attacked harder looks worse"
    first, second = results.result(40), results.result(40, 1)
    assert warning not in page(tmp_path, first, second).text
    second.budget = "full" if first.budget != "full" else "quick"
    assert warning in page(tmp_path, first, second).text
    second.budget, second.unmet = first.budget, ["no attack without gradients"]
    assert "not both complete" in page(tmp_path, first, second).text


def test_the_verdict_comes_first_and_then_what_was_judged(tmp_path: Path) -> None:
    result = results.result(40)
    result.unmet, result.shard = ["no attack without <gradients>"], [0, 2]
    title = "VAE + ALU on cifar10/test, Linf eps 8/255, suite adaptive, budget quick"
    line = page(tmp_path, result).line
    verdict = " ".join(result.verdict.splitlines())
    assert line.startswith(f"{title} INCOMPLETE (no attack without <gradients>)SHARD 1 OF 2 {verdict} {title}")
    assert "INCOMPLETE" not in page(tmp_path, results.result(40)).text


def test_a_figure_that_is_only_a_bound_says_so(tmp_path: Path) -> None:
    result = results.result(40)
    result.attacks.insert(0, result.attacks.pop(3))  # the decoy first: the others were kept from what it broke
    result.attacks[1].answers, result.attacks[1].distance = result.attacks[-1].answers, result.attacks[-1].distance
    assert metrics.bound_only(result, ["oblivious"])
    page(tmp_path, result, result)
    bounds = re.findall(r'at most <span class="figure" data-key="([\w/-]+)"', (tmp_path / "report.html").read_text())
    assert {"result-0/level/oblivious/robust", "result-0/level/oblivious/resisted", "compare/1/oblivious"} <= {*bounds}
    page(tmp_path, results.plain(40), results.plain(40))
    assert "at most <span" not in (tmp_path / "report.html").read_text()


def test_attacks_that_failed_or_saw_nothing_say_so(tmp_path: Path) -> None:
    result = results.result(40)
    for record in result.attacks[4:]:
        record.answers, record.distance = type(record.answers)(), []
    result.attacks[4].failed = "the model has no gradient <here>."
    result.attacks[3].notes = ["Warning: zero gradients"]
    text = page(tmp_path, result).line
    assert "Could not run: the model has no gradient <here>." in text
    assert "queryadaptiveNot run: earlier attacks had broken every image." in text
    assert "Under the worst of 5 attacks (1 of them had no image left to break)" in text
    assert "Warning: zero gradients" in text


def test_diagnostics_are_explained_and_failed_ones_stand_open(tmp_path: Path) -> None:
    result = results.result(40)
    found = page(tmp_path, result)
    assert [*found.verdicts.values()] == sorted(found.verdicts.values(), key=["failed", "not run", "passed"].index)
    assert found.verdicts == {item.id: item.status for item in result.diagnostics}
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
    named = set(re.findall(r'(?:Diagnostic|checked|compared)\(\s*"([a-z-]+)"', texts))
    assert {"black-box", "noise", "batch-size", "eps-large"} <= named
    assert named == set(EXPLAINED)
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
    assert not re.search(r"https?://|@import|url\(|<script\s", text)
    assert text.count("<script>") == 1


def test_names_are_shown_as_they_are(tmp_path: Path) -> None:
    result = results.result(40, name="<script>alert('x')</script>")
    result.attacks[0].name = result.examples[0]["attack"] = "<b>bold</b>"
    result.classes = ["<i>", *result.classes[1:]]
    text = page(tmp_path, result).text
    assert "<script>alert('x')</script>" in text
    assert (tmp_path / "report.html").read_text().count("<script") == 1, "the page's own"
    assert "<b>bold</b>" in text
    assert "<i>" in text


def test_many_classes_fit(tmp_path: Path) -> None:
    result = results.result(500)
    result.classes = [f"class {index}" for index in range(100)]
    for example in result.examples:
        example["before"], example["after"] = [0.5] * 100, [1.0] * 100
    result.labels = [index % 25 if index < 400 else index % 100 for index in range(500)]
    text = page(tmp_path, result).line
    assert "The 20 classes with most of them are shown. 75 of 100 classes have fewer than 12 images" in text
    assert (tmp_path / "report.html").read_text().count('y="162"') == 0  # no example has an eleventh bar


def test_examples_show_their_own_pictures_and_logits() -> None:
    result = results.result(40)
    shown = [one for group in evaluation.images("result-0", result) for one in (*group["first"], *group["more"])]
    for example, one in zip(result.examples, shown, strict=True):
        assert one["drawing"] == bars(result.classes, example["before"], example["after"], example["true"])
        assert one["pictures"] == [
            (example[name], name) for name in ("clean", "perturbation", "adversarial", "purified")
        ]
        assert (one["true"], one["answer"]) == (CLASSES[example["true"]], CLASSES[example["answer"]])
        assert one["correct"] == (example["true"] == example["answer"])


def boxed(key: str, result: Result) -> list[str]:
    """The sentences of the verdict, as a reader has them."""
    rows = [row["parts"] for row in evaluation.verdict(key, result)]
    return ["".join(part if isinstance(part, str) else part.text for part in parts) for parts in rows]


def test_the_box_says_what_the_result_says() -> None:
    result = results.result(40)
    assert boxed("result-0", result) == result.verdict.splitlines()
    result.bare = None
    assert boxed("result-0", result) == result.verdict.splitlines()
    assert evaluation.verdict("result-0", result)[0]["kind"] == "unclear"
    assert evaluation.verdict("result-0", results.plain(20)) == []


def test_colours_follow_the_verdict() -> None:
    result = results.result(60)
    result.clean.bare = [(label + 1) % 10 for label in result.labels]
    assert evaluation.verdict("result-0", result)[-1]["kind"] == "helps"
    result.clean.bare, result.clean.answer = result.labels, result.clean.bare
    assert evaluation.verdict("result-0", result)[-1]["kind"] == "harms"


def test_several_results_begin_with_a_verdict_each(tmp_path: Path) -> None:
    shown = [results.result(40), results.plain(40), results.result(40, 1)]
    first = " ".join(f"{at + 1}. {shown[at].verdict.splitlines()[0]}" for at in (0, 2))
    assert page(tmp_path, *shown).line.split("3 evaluations side by side ")[1].startswith(first)
    assert evaluation.comparison([results.plain(20), results.plain(20)])["verdict"] == []


def test_no_sentence_claims_protection_that_was_not_compared(tmp_path: Path) -> None:
    assert "protects" not in page(tmp_path, results.result(60)).text


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
