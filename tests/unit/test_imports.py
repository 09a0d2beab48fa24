"""Imports go one way, and what needs no torch does not import it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "alu"
TABLE = re.findall(r"^\| (\d+) \| (`.*`) \|$", (ROOT / "docs" / "design.md").read_text(), re.MULTILINE)
LEVEL = {part: int(level) for level, parts in TABLE for part in re.findall(r"`(\w+)`", parts)}


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in SOURCE.rglob("*.py")}


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Every statement, also inside functions and conditions."""
    for node in body:
        yield node
        for inner in ("body", "orelse", "handlers", "finalbody", "cases"):
            yield from statements(getattr(node, inner, []))


def run_on_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when a file is imported."""
    for node in body:
        if isinstance(node, ast.FunctionDef) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)):
            continue
        yield node
        for inner in ("body", "orelse", "handlers", "finalbody", "cases"):
            yield from run_on_import(getattr(node, inner, []))


def modules_in(nodes: Iterator[ast.stmt]) -> set[str]:
    """The modules of this package that statements import: alu.data for `from alu import data`, never just alu."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import hides where it leads"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                names.add(whole if whole in MODULES else str(node.module))
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name for name in names if name.startswith("alu.")}


def imported(path: Path) -> set[str]:
    return modules_in(statements(ast.parse(path.read_text()).body))


def part_of(module: str) -> str:
    return module.split(".")[1]


def test_every_part_has_one_level() -> None:
    parts = {part_of(module) for module in MODULES if module not in ("alu", "alu.__main__")}
    assert set(LEVEL) == parts
    assert sum(row.count("`") // 2 for _, row in TABLE) == len(LEVEL)


@pytest.mark.parametrize(
    ("code", "modules"),
    [
        ("from alu import data, models", {"alu.data", "alu.models"}),
        ("from alu.data import Dataset", {"alu.data"}),
        ("from alu.data import pictures", {"alu.data.pictures"}),
        ("import alu.cli.options as o, torch", {"alu.cli.options"}),
        ("def f():\n    if x:\n        from alu.cli import app", {"alu.cli"}),
        ("try:\n    pass\nexcept ValueError:\n    import alu.demo", {"alu.demo"}),
        ("class A:\n    def f(self):\n        with x:\n            import alu.paper.page", {"alu.paper.page"}),
    ],
)
def test_no_import_is_overlooked(code: str, modules: set[str]) -> None:
    assert modules_in(statements(ast.parse(code).body)) == modules


def test_imports_go_one_way() -> None:
    wrong = [
        f"{module} imports {name}"
        for module, path in MODULES.items()
        if module not in ("alu", "alu.__main__")
        for name in imported(path)
        if LEVEL[part_of(name)] > LEVEL[part_of(module)]
    ]
    # A type only: what is saved is handed over by the defence itself.
    assert sorted(set(wrong) - {"alu.saving imports alu.defense"}) == []


def test_no_file_imports_another_in_a_circle() -> None:
    graph = {name: modules_in(run_on_import(ast.parse(path.read_text()).body)) for name, path in MODULES.items()}
    list(TopologicalSorter(graph).static_order())  # a CycleError names the files
    assert graph["alu"] == set(), "public names are loaded when first used"


def test_attacks_know_nothing_of_defenses() -> None:
    for path in (SOURCE / "attacks").rglob("*.py"):
        parts = {part_of(name) for name in imported(path)}
        assert parts <= {"attacks", "check", "errors", "parts", "progress", "rng", "threat", "decision"}, path


def test_reports_read_results_and_nothing_else_of_an_evaluation() -> None:
    allowed = {"errors", "storage", "report", "stats"}
    results = {f"alu.evaluation.{name}" for name in ("beside", "metrics", "result", "verdicts")}
    for path in (SOURCE / "report").rglob("*.py"):
        names = {name for name in imported(path) if part_of(name) not in allowed}
        assert names <= results, path


def heavy_modules(code: str, *words: object) -> str:
    """Which heavy modules a fresh Python has after this code."""
    heavy = "sorted({'torch', 'numpy', 'PIL', 'lightning_fabric'} & set(sys.modules))"
    command = [sys.executable, "-c", f"import sys\n{code}\nprint({heavy})", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


COMMAND = """
from typer.testing import CliRunner
from alu.cli import app
def run(*words):
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, (words, done.output)
    assert 'torch' not in sys.modules, words
    return done.output
"""


def test_help_of_every_command_does_not_import_torch() -> None:
    code = (
        "run('--help')\nfrom typer.main import get_command\nnames = list(get_command(app).commands)\n"
        "assert len(names) == 12\nfor name in names:\n    assert 'Usage' in run(name, '--help')"
    )
    assert heavy_modules(COMMAND + code) == "[]"


def test_a_report_is_made_without_torch(tmp_path: Path) -> None:
    result = ROOT / "tests" / "unit" / "stored" / "defense.json"
    assert heavy_modules(COMMAND + "run('report', *sys.argv[1:])", result, "--out", tmp_path / "page.html") == "[]"
    assert (tmp_path / "page.html").is_file()
    assert heavy_modules("import alu.report.demo") == "[]"


def test_shards_are_merged_without_torch() -> None:
    assert heavy_modules("import alu.evaluation.merging") == "[]"


def test_results_of_the_paper_are_listed_and_shown_without_torch() -> None:
    code = (
        "assert run('reproduce', 'list').startswith('table1 ')\n"
        "import alu.paper.page\nfrom alu.paper.store import Results\n"
        "assert 'table1' in alu.paper.page.markdown(Results()) and alu.paper.page.html(Results())"
    )
    assert heavy_modules(COMMAND + code) == "[]"


def test_an_exported_defence_needs_no_torch() -> None:
    assert heavy_modules("import alu.exported") == "['numpy']"


def test_no_file_is_a_drawer() -> None:
    names = {path.stem for path in SOURCE.rglob("*.py")}
    assert not names & {"utils", "helpers", "common", "misc"}
