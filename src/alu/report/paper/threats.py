"""The threat-model card: what each kind of attacker leaves of the bundled defence."""

from __future__ import annotations

from alu.report.charts import chart
from alu.report.dots import Dot, dots
from alu.report.paper.results import Results, both, incomplete, share
from alu.report.paper.shape import Chart, Shown, Table, percent

KNOWS = {
    "no attack": "",
    "oblivious": "PGD-20 on the classifier, 8/255; knows nothing of the defence",
    "transfer": "momentum PGD-20 on another network (one that was tuned from this one)",
    "query": "no gradients: Square, twice with 500 questions, on soft answers of a twin with fewer steps, "
    "judged on what is deployed",
    "surrogate": "PGD-20 on f(D(E)), which the paper calls white-box",
    "adaptive": "knows everything; union of all attacks, budget quick",
}
"""What each attacker of the threat-model card does."""


READINGS = {
    "bare": "bare classifier", "input": "ALU, input reading", "reconstruction": "ALU, reconstruction",
    "purified": "purified only",
}  # fmt: skip
COLOURS = {"bare": "#8a93a3", "input": "#2b5fab", "reconstruction": "#6b4ea3", "purified": "#1a7f4b"}


def threats(results: Results) -> list[Shown]:
    """The threat-model card: one row for each kind of attacker; and the same as a figure."""
    rows, drawn = [], []
    for row, knows in KNOWS.items():
        cells = []
        for reading, name in READINGS.items():
            found = results.found("threats", f"{reading}/{row}")
            if not found:
                about = row == "surrogate" and reading == "bare"
                cells.append("–" if about else results.absent("threats", f"{reading}/{row}"))
                continue
            adaptive = row == "adaptive"
            standing = share(found["adaptive"] if adaptive else both(found["clean"], found["attacked"]))
            cells.append(percent(standing) + (incomplete(found) if adaptive else ""))
            drawn.append(Dot(name, standing, COLOURS[reading], row))
        rows.append([row, knows, *cells])
    title = "Right clean and right attacked, percent (standard protocol): cifar10-standard behind cifar10-vae, N = 20"
    card = Table(title, ["attacker", "what it does", *READINGS.values()], rows)
    if not drawn:
        return [card]
    caption = "What each attacker leaves, standard protocol"
    return [card, Chart(chart(caption, dots(caption, drawn)))]
