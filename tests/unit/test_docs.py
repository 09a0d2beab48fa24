"""The documentation is true: its snippets run, its links lead somewhere, the names it mentions exist."""

from __future__ import annotations

import importlib
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")) if path.is_file()
)
every = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[^\n`]*)\n(?P<code>.*?)^(?P=indent)``` *$", re.M | re.S)
LINK = re.compile(r"\[[^\]\n]*\]\((?P<target>[^)\s]+)\)")
NAME = re.compile(r"`(?P<name>alu(?:\.[A-Za-z_]\w*)+)[^`\n]*`")


FILE = re.compile(r"`(?P<file>(?:\w+/)+[\w.-]*|\w+\.py)`")


class Block(NamedTuple):
    language: str
    code: str
    line: int


def blocks(text: str) -> list[Block]:
    """Every fenced block, with the number of the line above its code."""
    found = []
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start("code"))
        found.append(Block(match["language"].strip(), textwrap.dedent(match["code"]), line))
    return found


def prose(text: str) -> str:
    """The text without its fenced blocks."""
    return FENCE.sub("", text)


def headings(text: str) -> set[str]:
    """The anchors that a page's headings make."""
    titles = re.findall(r"^#+ +(.+?) *$", prose(text), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(page: Path, text: str) -> list[str]:
    """Relative links that lead to no file, to no heading, or out of the project."""
    wrong = []
    for match in LINK.finditer(prose(text)):
        target, _, anchor = match["target"].partition("#")
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        place = (page.parent / target).resolve() if target else page
        there = place.exists() and place.is_relative_to(ROOT)
        if not there or (anchor and place.suffix == ".md" and anchor not in headings(place.read_text())):
            wrong.append(match["target"])
    return wrong


def resolves(name: str) -> bool:
    """Whether a dotted name that starts with alu leads to a module, an attribute or a field."""
    thing: object = importlib.import_module("alu")
    path = "alu"
    for part in name.split(".")[1:]:
        path += f".{part}"
        fields = getattr(thing, "__dataclass_fields__", {})
        if hasattr(thing, part):
            thing = getattr(thing, part)
        elif part in fields or part in getattr(thing, "__annotations__", {}):
            return True
        else:
            try:
                thing = importlib.import_module(path)
            except ImportError:
                return False
    return True


def missing_files(text: str) -> list[str]:
    """Files and folders of the project that a page names and that are not there; `base.py` may lie anywhere."""
    ours = {path.name for path in ROOT.iterdir() if path.is_dir()}
    scripts = {
        path.name for folder in ("src", "tools", "tests", "bench", "examples") for path in (ROOT / folder).rglob("*.py")
    }
    names = {match["file"] for match in FILE.finditer(prose(text))}
    wrong = {name for name in names if name.partition("/")[0] in ours and not (ROOT / name).exists()}
    return sorted(wrong | {name for name in names if "/" not in name and name not in scripts})


@pytest.fixture
def _undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty current folder; modules, their search path and the global random state are put back."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    state = torch.get_rng_state()
    yield
    torch.set_rng_state(state)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@every
@pytest.mark.filterwarnings("ignore:Harmless changes cost:alu.check.AluWarning")  # a fit on few images
@pytest.mark.usefixtures("_undone")
def test_snippets_run(page: Path) -> None:
    namespace: dict[str, object] = {"__name__": f"snippets of {page.name}"}
    for block in blocks(page.read_text()):
        if block.language == "python":
            # Blank lines above the code, so that a traceback names the line of the page.
            exec(compile("\n" * block.line + block.code, str(page), "exec", dont_inherit=True), namespace)


@every
def test_fences_are_closed_and_say_what_they_hold(page: Path) -> None:
    text = page.read_text()
    assert "```" not in prose(text)
    assert {block.language for block in blocks(text)} <= {"python", "bash", "text", "json"}


@every
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page, page.read_text()) == []


@every
def test_names_exist(page: Path) -> None:
    names = {match["name"] for match in NAME.finditer(prose(page.read_text()))}
    assert sorted(name for name in names if not resolves(name)) == []


@pytest.mark.parametrize("page", ["README.md", "docs/design.md", "docs/tour.md"])
def test_files_exist(page: str) -> None:
    assert missing_files((ROOT / page).read_text()) == []


def test_the_tree_names_every_file_and_no_other() -> None:
    tree = next(block.code for block in blocks((ROOT / "docs" / "design.md").read_text()) if "src/alu/" in block.code)
    folder, named = "", []
    for line in tree.splitlines()[1:]:
        match = re.match(r" +(?P<name>[\w./]+)  ", line)
        assert match, line
        if match["name"].endswith("/"):
            folder = match["name"]
        else:
            named.append((folder if line.startswith("    ") else "") + match["name"])
    package = ROOT / "src" / "alu"
    there = {str(path.relative_to(package)) for path in package.rglob("*.py") if not path.name.startswith("__")}
    assert sorted(there - {*named}) == []
    assert [name for name in named if not (package / name).is_file()] == []


def test_the_checks_can_fail() -> None:
    page = ROOT / "docs" / "design.md"
    assert broken_links(page, "[a](../README.mdx) [b](design.md#nowhere) [c](../../elsewhere)\n") == [
        "../README.mdx",
        "design.md#nowhere",
        "../../elsewhere",
    ]
    assert broken_links(page, "[a](design.md#vocabulary) [b](https://example.org/x) [c](#vocabulary)\n") == []
    assert [resolves(name) for name in ("alu.data.sample", "alu.Decision.label", "alu.saving.is_defense")] == [True] * 3
    assert [resolves(name) for name in ("alu.data.samples", "alu.Decision.labels", "alu.nothing")] == [False] * 3
    assert missing_files("`src/alu/gone.py` `src/alu/` `src/alu/stats.py` `gone.py` `stats.py` `pictures/cat`") == [
        "gone.py",
        "src/alu/gone.py",
    ]
    found = blocks("text\n\n1. step\n\n   ```python\n   x = 1\n   ```\n\n```bash\nls\n```\n")
    assert found == [Block("python", "x = 1\n", 5), Block("bash", "ls\n", 9)]
