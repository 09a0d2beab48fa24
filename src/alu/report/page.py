"""Self-contained pages: one file with style and script inside, no network, readable without script and in print.

`render` fills the templates. The other pieces are those of the paper's page, which has no template yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from alu.storage import replacing

HERE = Path(__file__).parent

STYLE = """
:root { --ink: #1c2430; --soft: #5c6473; --line: #dde1e8; --good: #1a7f4b; --bad: #b3362d; --accent: #2b5fab;
  --pale: #f5f7fa; }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; color: var(--ink); background: #fff;
  max-width: 68rem; margin: 2.5rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.6rem; line-height: 1.3; margin-bottom: .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin-top: 2.6rem; break-after: avoid; } h3 { font-size: 1rem; margin-bottom: .2rem; }
p, li { max-width: 46rem; } .soft { color: var(--soft); font-size: .9rem; } a { color: var(--accent); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; width: 100%; }
th, td { text-align: left; padding: .45rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; font-size: .86rem; line-height: 1.3; vertical-align: bottom; }
th.gap, th.group { border-bottom: 0; padding-bottom: 0; color: var(--soft); }
th.group { border-left: 1px solid var(--line); }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
td small, th small { color: var(--soft); display: block; font-weight: 400; }
.dense { font-size: .86rem; } .dense th, .dense td { padding: .35rem .4rem; } .dense small { font-size: .76rem; }
.dense th { font-size: .8rem; }
td:first-child { min-width: 8rem; } .dense td.over { color: var(--soft); }
.dense td.number { white-space: normal; } .dense td.number small { white-space: nowrap; }
.claims td { white-space: normal; } .claims td:nth-child(2) { min-width: 9rem; font-weight: 600; }
.figures { margin: 0 0 .3rem; padding-left: 1.1rem; font-size: .92em; }
.figures li { max-width: none; margin: .1rem 0; }
.short { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: 0 2rem; }
.short h3 { border-top: 4px solid; padding-top: .4rem; } .short ul { margin: .3rem 0; padding-left: 1.1rem; }
.short li a { color: inherit; } .short section { break-inside: avoid; }
.partly { color: #96650a; }
.high, .passed { color: var(--good); } .low, .failed { color: var(--bad); } .none { color: #aab; }
.stamp { display: inline-block; border: 2px solid var(--bad); color: var(--bad); font-weight: 700; border-radius: 4px;
  padding: .1rem .6rem; margin: 0 .5rem .4rem 0; }
.found { background: var(--pale); border-left: 4px solid var(--accent); margin: 1rem 0;
  padding: .6rem 1.2rem .6rem 2rem; }
.found li { margin: .3rem 0; max-width: 58rem; }
.figure { white-space: nowrap; } nav { font-size: .9rem; } nav a { margin-right: .9rem; white-space: nowrap; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); gap: 1.4rem 2rem; }
.chart { margin: .8rem 0; min-width: 0; max-width: 46rem; break-inside: avoid; }
.chart:has(.dots) { max-width: 52rem; } .chart figcaption { font-weight: 600; font-size: .95rem; }
.chart p { margin: .2rem 0; } .legend { font-size: .84rem; color: var(--soft); }
.legend span { display: inline-block; margin-right: 1rem; }
.legend i { display: inline-block; width: .75rem; height: .75rem; border-radius: 2px; margin-right: .35rem; }
.tick { display: inline-block; width: .6rem; height: .6rem; border-radius: 50%; margin-right: .4rem; }
.example { display: grid; grid-template-columns: repeat(4, 84px) minmax(14rem, 24rem); gap: .4rem .8rem;
  align-items: start; margin: 1.1rem 0; break-inside: avoid; border-top: 1px solid var(--line); padding-top: .9rem; }
.example.three { grid-template-columns: repeat(3, 96px) minmax(16rem, 1fr); }
.example figure { margin: 0; font-size: .78rem; color: var(--soft); } .example img { width: 100%; aspect-ratio: 1;
  image-rendering: pixelated; display: block; border-radius: 4px; }
.example .say { grid-column: 1 / -1; margin: 0; max-width: none; }
svg { max-width: 100%; height: auto; display: block; } .example svg { max-width: 26rem; }
* + header { margin-top: 4rem; border-top: 3px solid var(--line); padding-top: 1.6rem; }
svg text { font: 12px system-ui, sans-serif; fill: var(--soft); } svg .title { font-size: 12.5px; fill: var(--ink); }
svg .true { font-weight: 700; fill: var(--ink); } svg .grid { stroke: var(--line); } svg .axis { stroke: #99a; }
details { border-bottom: 1px solid var(--line); padding: .5rem 0; } summary { cursor: pointer; }
details p { margin: .4rem 0 .2rem 1.1rem; } code { font-size: .88em; overflow-wrap: anywhere; }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.2rem; font-size: .9rem; }
.facts dt { color: var(--soft); } .facts dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 40rem) { body { margin-top: 1.2rem; } .example { grid-template-columns: repeat(4, 1fr); }
  .example.three { grid-template-columns: repeat(3, 1fr); } .example svg { grid-column: 1 / -1; }
  .facts { grid-template-columns: 1fr; } .facts dd { margin-bottom: .4rem; }
  .found { padding: .4rem .8rem .4rem 1.4rem; } }
@media print { body { margin: 0; max-width: none; font-size: 11pt; }
  .wide { overflow: visible; } nav { display: none; }
  h2, h3, figcaption, .verdicts, h2 + p, .verdicts + p { break-after: avoid; } tr, figure, li { break-inside: avoid; }
  .verdicts { break-inside: avoid; } .claims { font-size: .8rem; } .claims td { padding: .25rem .5rem; }
  .chart svg { max-height: 120mm; } .folded { display: none; }
  .charts svg { max-height: 54mm; } .charts { gap: 0 2rem; font-size: .8rem; }
  .dense { font-size: .72rem; } @page { size: A4 landscape; margin: 12mm; } }
"""


@cache
def environment() -> Environment:
    """The templates: what is filled in is escaped, and a name that is not there is an error."""
    templates = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        lstrip_blocks=True,
    )
    templates.globals["style"] = (HERE / "style.css").read_text(encoding="utf-8")
    templates.globals["script"] = (HERE / "script.js").read_text(encoding="utf-8")
    return templates


def render(template: str, **context: object) -> str:
    """A whole page."""
    return environment().get_template(template).render(**context)


def page(title: str, body: Sequence[str], style: str = "") -> str:
    """A whole HTML page; `style` is what it needs beyond what all pages share."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}{style}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def write(path: Path, text: str) -> None:
    """Write a page atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], groups: Sequence[tuple[str, int]] = (), dense: bool = False
) -> str:
    """An HTML table; cells are HTML already. A row of two cells in a wider table is a remark across its columns."""
    above = "".join(f'<th class="{"group" if cell else "gap"}" colspan="{span}">{cell}</th>' for cell, span in groups)
    head = (f"<tr>{above}</tr>" if groups else "") + "<tr>" + "".join(f"<th>{cell}</th>" for cell in header) + "</tr>"
    body = "".join(_row(row, len(header)) for row in rows)
    kind = ' class="dense"' if dense else ""
    return f'<div class="wide"><table{kind}><thead>{head}</thead><tbody>{body}</tbody></table></div>'


def _row(row: Sequence[str], width: int) -> str:
    if len(row) == 2 < width:
        return f'<tr><td>{row[0]}</td><td class="over" colspan="{width - 1}">{row[1]}</td></tr>'
    return f"<tr><td>{row[0]}</td>" + "".join(f'<td class="number">{cell}</td>' for cell in row[1:]) + "</tr>"
