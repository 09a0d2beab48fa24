"""The page, the text for a terminal and claims.md: everything that was measured, and nothing that was not."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from tools.write_documents import summary

from alu.paper import EXPERIMENTS, verdicts
from alu.paper.claims import OBLIVIOUS
from alu.paper.one_step import Key
from alu.paper.page import by_status, html, markdown, text
from alu.paper.store import Results
from alu.paper.views import Table
from tests.paper.test_histogram import HIGH, LOW, scores
from tests.paper.test_logit_change import ROBUST, STANDARD, changed
from tests.paper.toys import emptied, results


def test_the_page_shows_claims_and_experiments() -> None:
    found = results(scores(LOW, HIGH, LOW, HIGH))
    page, total = html(found), len(verdicts(found))
    assert "The score on clean and attacked images" in page
    assert OBLIVIOUS in page
    assert page.count("<svg") == 2
    assert page == html(found), "the same results give the same page"
    assert "http" not in page.replace("http://www.w3.org", "")
    assert f"{total - 3} are not measured yet" in page
    assert page.index('id="summary"') < page.index('id="words"') < page.index('id="claims"')
    targets = set(re.findall(r' id="([^"]+)"', page))
    assert len(targets) == page.count(' id="'), "no place twice"
    linked = set(re.findall(r'href="#([^"]+)"', page))
    assert linked <= targets
    assert len([place for place in linked if place.startswith("claim-")]) == total


def test_a_table_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words are escaped, intervals stand below their values, a remark spans the columns, a folded table has a title."""
    whole = ["<one>", "50.0 [9.5, 90.5] n=2", "0.0 [0.0, 3.7] n=9 INCOMPLETE (x)"]
    panels = [Table("<t>", ["", "a", "b"], [whole, ["second", "a remark."]], "a & b", folded=True)]
    monkeypatch.setitem(EXPERIMENTS, "one-step", replace(EXPERIMENTS["one-step"], view=lambda _: panels))
    page = html(emptied(results({}), Key(1), "nobody measured it."))
    assert '<details class="folded"><summary>&lt;t&gt;</summary>' in page
    assert "<td>&lt;one&gt;</td>" in page
    assert '<td class="number">50.0<small>[9.5, 90.5] n=2</small></td>' in page
    assert '<td class="number">0.0<small>[0.0, 3.7] n=9</small> INCOMPLETE (x)</td>' in page
    assert '<td>second</td><td class="over" colspan="2">a remark.</td>' in page
    assert '<p class="soft">a &amp; b</p>' in page


def test_words_from_files_are_escaped() -> None:
    found = emptied(results({}), Key(1), "<nobody> measured it.")
    page = html(found)
    assert "Empty cells: &lt;nobody&gt; measured it." in page
    assert "<nobody>" not in page


def test_a_terminal_sees_empty_cells() -> None:
    measured = {"n": 2, "rate": [1.0, -1.0], "error before": [1, 1], "error after": [0, 0]}
    found = emptied(results({Key(1): measured}), Key(10), "nobody measured it.")
    printed = text(found, "one-step")
    assert "50.0 [9.5, 90.5] n=2" in printed
    assert "1 of 2 cells are empty: nobody measured it." in printed
    assert "The paper: A positive learning rate exists" in printed


def test_claims_are_counted_by_what_became_of_them() -> None:
    both = changed(STANDARD, "1" * 400, 1.0) | changed(ROBUST, "1" * 260 + "0" * 140, 4.0)
    found = results(both)
    assert next(iter(by_status(found))) == "2 hold (2 on one classifier only)"
    assert ": 2 hold (2 on one classifier only); " in summary(found)


def test_what_was_not_measured_is_listed_as_such() -> None:
    assert markdown(Results()).count("**Not measured yet.**") == len(verdicts(Results()))
