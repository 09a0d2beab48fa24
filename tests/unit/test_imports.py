"""Imports go one way, and the command starts without torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "alu"

# A part may import from its own level and from lower ones.
LEVELS = [
    {"errors", "rng", "check", "checked", "modes", "storage", "provenance", "threat", "decision", "imports", "stats"},
    {"data", "models"},
    {"parts"},
    {"purifiers", "detectors", "attacks"},
    {"saving"},
    {"defense"},
    {"loading"},
    {"evaluation", "report", "integrations"},
    {"demo"},
    {"training"},
    {"paper"},
    {"cli"},
]
LEVEL = {name: number for number, names in enumerate(LEVELS) for name in names}


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "alu":
            rest = node.module.split(".")[1:]
            names |= {".".join(rest)} if rest else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name[4:] for alias in node.names if alias.name.startswith("alu.")}
    return names


def test_imports_go_one_way() -> None:
    wrong = []
    for path in SOURCE.rglob("*.py"):
        part = path.relative_to(SOURCE).with_suffix("").parts[0]
        if part in ("__init__", "__main__"):
            continue
        for name in imported(path):
            other = name.split(".")[0]
            if other and LEVEL[other] > LEVEL[part]:
                wrong.append(f"{path.relative_to(SOURCE)} imports alu.{name}")
    # A type only: what is saved is handed over by the defence itself.
    assert sorted(set(wrong) - {"saving.py imports alu.defense"}) == []


def test_attacks_know_nothing_of_defenses() -> None:
    for path in (SOURCE / "attacks").rglob("*.py"):
        parts = {name.split(".")[0] for name in imported(path)}
        assert parts <= {"attacks", "check", "errors", "modes", "parts", "rng", "threat", "decision"}, path


def test_reports_do_not_need_torch() -> None:
    parts = "alu.report, alu.report.demo, alu.report.zoo"
    code = f"import sys, {parts}; print(sorted({{'torch', 'numpy', 'PIL'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_shards_are_merged_without_torch() -> None:
    code = (
        "import sys, alu.evaluation.merging, alu.evaluation.text; print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_reports_read_results_and_nothing_else_of_an_evaluation() -> None:
    allowed = {"errors", "storage", "report", "stats"} | {
        f"evaluation.{name}" for name in ("metrics", "printed", "result", "text", "verdicts")
    }
    for path in (SOURCE / "report").glob("*.py"):
        # `from alu.evaluation import metrics` names the part in its second half.
        found = {name for name in imported(path) if name != "evaluation"}
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "alu.evaluation":
                found |= {f"evaluation.{alias.name}" for alias in node.names}
        assert {name if name.startswith("evaluation") else name.split(".")[0] for name in found} <= allowed, path


def test_help_does_not_import_torch() -> None:
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom alu.cli import app\n"
        "for words in ([], ['demo'], ['data'], ['fit'], ['merge'], ['predict'], ['report'], ['train']):\n"
        "    assert CliRunner().invoke(app, [*words, '--help']).exit_code == 0, words\n"
        "print(sorted({'torch', 'numpy', 'PIL', 'lightning_fabric'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_results_of_the_paper_are_listed_and_shown_without_torch() -> None:
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom alu.cli import app\n"
        "done = CliRunner().invoke(app, ['reproduce', 'list'])\nassert done.output.startswith('table1 '), done.output\n"
        "import alu.paper.page\nfrom alu.paper.store import Results\n"
        "assert 'table1' in alu.paper.page.markdown(Results()) and alu.paper.page.html(Results())\n"
        "print(sorted({'torch', 'numpy', 'PIL'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_no_file_is_a_drawer() -> None:
    names = {path.stem for path in SOURCE.rglob("*.py")}
    assert not names & {"utils", "helpers", "common", "misc"}
