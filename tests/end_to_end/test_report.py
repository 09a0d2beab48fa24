"""`alu report` and `alu merge`: files in, one page or one result out; the page opens in a browser."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from alu.evaluation.result import Result
from alu.storage import write_checked
from tests.end_to_end.command import alu, fresh, snapshot
from tests.unit import results

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--enable-logging=stderr",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good results, shards, and everything that is none."""
    folder = tmp_path_factory.mktemp("results")
    whole = results.result(60)
    whole.save(folder / "result.json")
    for index in range(3):
        results.part(whole, index, 3).save(folder / f"shard{index}.json")
    other = results.part(whole, 1, 3)
    other.provenance["alu"] = "9.9.9"
    other.save(folder / "other.json")
    text = (folder / "result.json").read_text()
    (folder / "edited.json").write_text(text.replace('"budget": "quick"', '"budget": "full"'))
    (folder / "cut.json").write_text(text[: len(text) // 2])
    (folder / "card.json").write_text('{"name": "cifar10-vae"}')
    write_checked(folder / "paper.json", {"experiment": "threats", "cells": {}})
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe")
    return folder


def test_a_page_from_results_in_a_fresh_process(place: Path, tmp_path: Path) -> None:
    done = fresh(place, "report", "result.json", "shard1.json", "--out", tmp_path / "deep" / "page.html")
    assert done.code == 0, done.err
    assert done.out == f"Page: {(tmp_path / 'deep' / 'page.html').as_uri()}\n"
    assert "SHARD 2 OF 3" in (tmp_path / "deep" / "page.html").read_text()


def test_shards_become_the_whole(place: Path, tmp_path: Path) -> None:
    done = alu(place, "merge", "shard2.json", "shard0.json", "shard1.json", "--out", tmp_path / "whole.json")
    assert done.code == 0, done.err
    assert (tmp_path / "whole.json").read_bytes() == (place / "result.json").read_bytes()
    assert str(Result.load(place / "result.json")) in done.out


def test_a_whole_that_lacks_an_obligation_ends_with_3(place: Path, tmp_path: Path) -> None:
    for index in range(3):
        shard = Result.load(place / f"shard{index}.json")
        shard.unmet = ["no attack without gradients"] if index == 1 else []
        shard.save(tmp_path / f"{index}.json")
    done = alu(tmp_path, "merge", "0.json", "1.json", "2.json", "--out", "whole.json")
    assert done.code == 3
    assert Result.load(tmp_path / "whole.json").unmet == ["no attack without gradients"]


@pytest.mark.parametrize("words", [("report", "result.json"), ("merge", *(f"shard{index}.json" for index in range(3)))])
def test_neither_imports_torch(place: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom alu.cli import app\n"
        "assert CliRunner().invoke(app, sys.argv[1:]).exit_code == 0\n"
        "print(sorted({'torch', 'numpy', 'PIL'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, *words, "--out", str(tmp_path / "made")]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert (tmp_path / "made").is_file()


CASES = {
    "missing file": (("report", "nothing.json"), "Cannot read nothing.json: No such file or directory"),
    "a folder": (("report", "."), "Cannot read .: Is a directory"),
    "edited": (("report", "edited.json"), "edited.json was changed after it was written"),
    "truncated": (("report", "cut.json"), "cut.json is not valid JSON"),
    "another JSON file": (("report", "result.json", "card.json"), "card.json is not a result of alu evaluate"),
    "no text": (("report", "picture.png"), "picture.png is not valid JSON"),
    "page below a file": (
        ("report", "result.json", "--out", "card.json/page.html"),
        "card.json/page.html cannot be written",
    ),
    "page over its result": (("report", "result.json", "--out", "./result.json"), "is one of the files to read"),
    "edited shard": (("merge", "shard0.json", "edited.json", "--out", "new.json"), "edited.json was changed"),
    "shard missing": (("merge", "shard0.json", "shard2.json", "--out", "new.json"), "shard 2 of 3 is missing"),
    "shard twice": (("merge", "shard0.json", "shard0.json", "--out", "new.json"), "they share images"),
    "other version": (
        ("merge", "shard0.json", "other.json", "shard2.json", "--out", "new.json"),
        "differ in the version of alu (0.1.0 and 9.9.9)",
    ),
    "whole and shard": (
        ("merge", "result.json", "shard1.json", "--out", "new.json"),
        "differ in the number of shards (1 and 3)",
    ),
    "result below a file": (
        ("merge", *(f"shard{index}.json" for index in range(3)), "--out", "card.json/new.json"),
        "card.json/new.json cannot be written",
    ),
    "page over another result": (("report", "result.json", "--out", "shard1.json"), "already there and is not a page"),
    "result over a picture": (
        ("merge", *(f"shard{index}.json" for index in range(3)), "--out", "picture.png"),
        "already there and is not a result",
    ),
    "result of reproduce": (("report", "paper.json"), "is a result of alu reproduce"),
    "result over a shard": (("merge", "shard0.json", "--out", "shard0.json"), "is one of the files to read"),
}


@pytest.mark.parametrize("case", CASES)
def test_one_sentence_and_nothing_changed(place: Path, case: str) -> None:
    words, expected = CASES[case]
    before = snapshot(place)
    done = alu(place, *words)
    assert expected in done.sentence()
    assert done.out == ""
    assert snapshot(place) == before


def opened(page: Path) -> tuple[str, list[str]]:
    """The document that a browser made of a page, and what its console said."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory() as profile:
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "--dump-dom", page.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian's package chromium), which is not installed")
def test_the_page_opens_in_a_browser_without_a_word(place: Path, tmp_path: Path) -> None:
    assert alu(place, "report", "result.json", "shard0.json", "--out", tmp_path / "page.html").code == 0
    text = (tmp_path / "page.html").read_text()
    document, console = opened(tmp_path / "page.html")
    assert console == []
    assert document.count("data-key=") == text.count("data-key=")
    assert '<p class="filter" hidden="">' not in document, "the script ran"
    # A page with a fault is heard, so that silence means something.
    (tmp_path / "faulty.html").write_text(text.replace("</body>", "<script>nothing()</script></body>"))
    assert opened(tmp_path / "faulty.html")[1]


def after(page: Path, script: str) -> str:
    """What a browser shows of a page on which this script ran, behind the page's own."""
    changed = page.with_name("changed.html")
    text = page.read_text(encoding="utf-8")
    changed.write_text(text.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
    document, console = opened(changed)
    assert console == []
    return document


def rows(document: str, anchor: str) -> list[tuple[str, bool]]:
    """The first words of each row of the first table behind an anchor, and whether it is hidden."""
    body = document.split(f'id="{anchor}"')[1].split("<tbody>")[1].split("</tbody>", maxsplit=1)[0]
    found = re.findall(r"<tr([^>]*)><td>(.*?)</td>", body, re.S)
    return [(re.sub(r"<[^>]+>", " ", label).split("  ")[0].strip(), "hidden" in given) for given, label in found]


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian's package chromium), which is not installed")
def test_tables_are_sorted_by_their_titles_and_filtered_by_knowledge(place: Path, tmp_path: Path) -> None:
    result = Result.load(place / "result.json")
    result.attacks[1].notes = ["a warning"]
    for record, seconds in zip(result.attacks, (30.0, 100.0, 9.0, 4.0, 2.0, 1.0), strict=True):
        record.seconds = seconds
    result.save(tmp_path / "result.json")
    assert alu(place, "report", tmp_path / "result.json", "--out", tmp_path / "page.html").code == 0
    names = [(name, False) for name, _ in rows((tmp_path / "page.html").read_text(), "result-0-attacks")]
    assert names[:4] == [("fgsm", False), ("pgd-20", False), ("", False), ("surrogate pgd-20", False)]
    last = names[5:]  # not run: without figures
    click = """
        const table = document.querySelector("#result-0-attacks ~ .wide table");
        const title = [...table.querySelectorAll("tr.columns th")].find((one) => one.textContent === "seconds");
        const press = () => title.querySelector("button").click();
    """
    document = after(tmp_path / "page.html", click + "press();")
    order = [("pgd-20", False), ("", False), ("fgsm", False), ("surrogate pgd-20", False), ("decoy", False)]
    assert rows(document, "result-0-attacks") == order + last, "the highest first, a remark behind its row"
    assert document.count('<th scope="col" aria-sort="descending"><button type="button">seconds</button></th>') == 1
    document = after(tmp_path / "page.html", click + "press(); press();")
    order = [("decoy", False), ("surrogate pgd-20", False), ("fgsm", False), ("pgd-20", False), ("", False)]
    assert rows(document, "result-0-attacks") == order + last, "what has no figure stays last"
    assert rows(after(tmp_path / "page.html", click + "press(); press(); press();"), "result-0-attacks") == names
    choose = """
        const filter = document.querySelector(".filter"), choice = filter.querySelector("select");
        choice.value = "oblivious";
        choice.dispatchEvent(new Event("change"));
        document.title = `${filter.hidden} ${filter.querySelector("[role=status]").textContent}`;
    """
    document = after(tmp_path / "page.html", choose)
    shown = [name for name, hidden in rows(document, "result-0-attacks") if not hidden]
    assert shown == ["fgsm", "pgd-20", ""]
    assert "<title>false rows shown: 2</title>" in document


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian's package chromium), which is not installed")
def test_arrow_keys_tell_what_the_points_of_a_chart_stand_for(place: Path, tmp_path: Path) -> None:
    assert alu(place, "report", "result.json", "--out", tmp_path / "page.html").code == 0
    keys = """
        const drawing = document.querySelector('svg[aria-label="Correct answers against eps"]');
        const tip = document.querySelector(".tip"), heard = [tip.hidden];
        for (const key of ["ArrowRight", "ArrowRight", "Escape"]) {
          drawing.dispatchEvent(new KeyboardEvent("keydown", { key }));
          heard.push(tip.hidden || tip.textContent);
        }
        document.title = `${drawing.tabIndex} ${JSON.stringify(heard)}`;
    """
    title = re.search(r"<title>(.*?)</title>", after(tmp_path / "page.html", keys))
    assert title is not None
    first, second = "Direct-20, eps 0.007843: 20 of 32 correct", "Direct-20, eps 0.01569: 9 of 32 correct"
    assert title[1] == f'0 [true,"{first}","{second}",true]'


TELL_WIDTH = "<script>document.title = `${document.documentElement.scrollWidth} of ${window.innerWidth}`</script>"


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian's package chromium), which is not installed")
def test_no_page_is_wider_than_its_window(place: Path, tmp_path: Path) -> None:
    assert alu(place, "report", "result.json", "shard0.json", "--out", tmp_path / "report.html").code == 0
    for page in (Path(__file__).parents[2] / "results" / "paper.html", tmp_path / "report.html"):
        text = page.read_text(encoding="utf-8")
        (tmp_path / "page.html").write_text(text.replace("</body>", f"{TELL_WIDTH}</body>"), encoding="utf-8")
        title = re.search(r"<title>(\d+) of (\d+)</title>", opened(tmp_path / "page.html")[0])
        assert title is not None
        assert int(title[1]) <= int(title[2]), f"{page.name}: something does not wrap"
