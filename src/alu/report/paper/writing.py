"""Write what the repository says from its results and cards: claims, bundled models, the README's summary, the page.

python -m alu.report.paper.writing [ROOT]
"""

from __future__ import annotations

import sys
from pathlib import Path

from alu.errors import AluError, StorageError, UsageError
from alu.report import page, zoo
from alu.report.paper import pictures
from alu.report.paper.claims import CLAIMS, markdown, sorted_out
from alu.report.paper.page import html
from alu.report.paper.results import Results
from alu.report.paper.shape import Table
from alu.report.paper.tables import NAMES
from alu.report.paper.views import VIEWS

PICTURE = """Table 2 on CIFAR-10, percent right: ALU as the paper reports it (grey), here under the same attack (blue,
paper protocol), here under every attack together (red, standard protocol), and the classifier without ALU under both
(black).

![ALU on CIFAR-10: the paper, and what was measured here](docs/table2.svg)"""
BEGIN, END = "<!-- from results: begin -->", "<!-- from results: end -->"


def texts(root: Path) -> dict[Path, str]:
    """What each generated file of a checkout should hold."""
    results = Results.open(root / "results")
    readme = root / "README.md"
    return {
        root / "docs" / "claims.md": markdown(results),
        root / "docs" / "table2.svg": pictures.summary(results, NAMES),
        root / "docs" / "zoo.md": zoo.markdown(),
        readme: _between(readme, summary(results)),
        root / "results" / "paper.html": html(results),
    }


def summary(results: Results) -> str:
    """The README's part: the threat-model card, and what became of the claims."""
    lines = []
    if "threats" in results.experiments:
        card, *_ = VIEWS["threats"](results)
        assert isinstance(card, Table)
        lines += [f"{card.title}:", "", *_table(card), ""]
    said = "; ".join(sorted_out(results))
    lines += [f"Of {len(CLAIMS)} claims of the paper: {said} ([each with its evidence](docs/claims.md))."]
    if results.cells("table2"):
        lines += ["", PICTURE]
    return "\n".join(lines)


def _table(shown: Table) -> list[str]:
    rows = [list(shown.header), ["---"] * len(shown.header), *map(list, shown.rows)]
    return ["| " + " | ".join(row) + " |" for row in rows]


def _between(path: Path, text: str) -> str:
    """A file's text with the part between the marks replaced."""
    whole = path.read_text(encoding="utf-8")
    before, begin, rest = whole.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise StorageError(f"{path} has no lines {BEGIN} and {END}; the summary goes between them.")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def write(root: Path) -> list[Path]:
    """Write all of them; returns their paths."""
    made = texts(root)
    for path, text in made.items():
        page.write(path, text)
    return list(made)


def main(words: list[str]) -> None:
    """Write below the folder that is named, or here; errors are one sentence on standard error."""
    root = Path(words[0] if words else ".")
    try:
        if not (root / "results").is_dir() or not (root / "README.md").is_file():
            raise UsageError(f"{root.resolve()} is no checkout of alu: it has no README.md beside a folder results.")
        written = write(root)
    except AluError as error:
        sys.stderr.write(f"alu: {error}\n")
        sys.exit(error.exit_code)
    sys.stdout.writelines(f"{path}\n" for path in written)


if __name__ == "__main__":
    main(sys.argv[1:])
