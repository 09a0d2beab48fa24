"""convergence: does the purified image approach the clean one as N grows, and does the estimated logit change point the
right way?"""

from __future__ import annotations

from alu.paper import store
from alu.paper.base import Cell, Experiment, System, Tensor, Workbench
from alu.paper.claims import OBLIVIOUS, Verdict, at_least, claim, every
from alu.paper.iterations import COUNTS
from alu.paper.store import Column, Measured, Results
from alu.paper.views import Colour, Panel, Table, curve, line_chart
from alu.report.axes import Axes, linear, steps
from alu.report.charts import Chart, Line
from alu.stats import Estimate, mean, mean_difference

SYSTEM = System("cifar10-standard", "cifar10-vae")
TO_CLEAN, TO_ATTACKED, COSINE = "to clean", "to attacked", "cosine"


class Key(store.Key, experiment="convergence"):
    """A way to attack."""

    column: Column


KEYS = {Key(Column.PGD_ON_F): Colour.BLUE, Key(Column.PGD_ON_VAE): Colour.RED}


def measure(bench: Workbench, key: Key) -> Measured:
    """By N, for each image: the distance (root mean square) of the purified image to the clean and to the attacked one,
    and the cosine between the estimated logit change (purified minus attacked) and the true one (clean minus attacked).
    """
    import torch.nn.functional as F

    from alu.defense import batched_logits
    from alu.purifiers import LatentVAE

    counts = [count for count in COUNTS if count <= bench.sizes["steps"]]
    clean = bench.test_images()
    images = bench.attacked_as(key.column, SYSTEM, clean)
    purifier = LatentVAE(SYSTEM.purifier, steps=counts[-1], lr=1e-2, schedule="constant").to(bench.device)
    classifier = bench.classifier(SYSTEM.classifier)
    before, truly = (bench.logits(SYSTEM.classifier, some) for some in (images, clean))
    rows: dict[str, dict[str, list[float]]] = {
        str(count): {TO_CLEAN: [], TO_ATTACKED: [], COSINE: []} for count in counts
    }
    for part in bench.batches(f"Convergence, {key}", images):
        outputs = purifier.outputs(images.images[part], counts)
        for row, output in zip(rows.values(), outputs, strict=True):
            guess = batched_logits(classifier, output) - before[part]
            cosine = F.cosine_similarity(guess, truly[part] - before[part])
            row[TO_CLEAN] += _apart(output, clean.images[part])
            row[TO_ATTACKED] += _apart(output, images.images[part])
            row[COSINE] += [round(float(value), 4) for value in cosine]
    itself = _apart(images.images, clean.images)
    return {"n": len(images), "solver": "Adam, lr 0.01", "attack itself": itself, "by N": rows}


def _apart(one: Tensor, other: Tensor) -> list[float]:
    return [round(float(value), 5) for value in (one - other).flatten(1).square().mean(1).sqrt()]


Row = tuple[int, dict[str, Estimate]]
"""A number of steps, and the mean of each figure after it."""


def view(results: Results) -> list[Panel]:
    """Distances and cosine by N: a chart for each kind of attack, one for the cosines, and all of it as tables."""
    drawn: list[Chart] = []
    tables: list[Panel] = []
    cosines: list[Line] = []
    for key, measured in results.measured(KEYS):
        rows = [(int(at), {name: mean(each) for name, each in row.items()}) for at, row in measured["by N"].items()]
        itself = mean(measured["attack itself"])
        drawn.append(_distances(str(key), rows, itself))
        cosines.append(curve(f"cosine, {key}", KEYS[key], [(at, row[COSINE]) for at, row in rows], ".4f"))
        table = [[str(at), *(row[name].shown(".4f") for name in (TO_CLEAN, TO_ATTACKED, COSINE))] for at, row in rows]
        header = ["N", "to clean, mean", "to attacked, mean", "cosine of estimated and true logit change, mean"]
        title = f"{key}: n={measured['n']}, attacked to clean {itself.shown('.4f')}"
        tables.append(Table(title, header, table, folded=True))
    if not drawn:
        return [Table.empty("Convergence")]
    axes = Axes(steps(int(cosines[0].points[-1][0])), linear(-1.0, 1.0), "latent steps N", "cosine")
    caption, note = "Estimated against true logit change", "1: the estimate points the right way."
    drawn.append(line_chart(caption, axes, cosines, note))
    return [tuple(drawn), *tables]


def _distances(kind: str, rows: list[Row], itself: Estimate) -> Chart:
    chosen = ((TO_CLEAN, Colour.BLUE), (TO_ATTACKED, Colour.RED))
    most = max(row[name].interval[1] for _, row in rows for name, _ in chosen)
    axes = Axes(steps(rows[-1][0]), linear(0, max(most, itself.value) * 1.1), "latent steps N", "root mean square")
    drawn = [curve(f"{name} image", colour, [(at, row[name]) for at, row in rows], ".4f") for name, colour in chosen]
    drawn.append(Line("attacked to clean", Colour.GREY, [(rows[0][0], itself.value), (rows[-1][0], itself.value)]))
    return line_chart(f"Distance of the purified image, {kind}", axes, drawn)


@claim("the purified image approaches the clean one", "With more steps the output approaches the clean image.")
def approaches(results: Results) -> Verdict:
    """The distance to the clean image against N."""
    figures, findings = ["Distances are root mean squares"], []
    for key in KEYS:
        rows = results.need(key)["by N"]
        (_, begin), *_, (last, end) = rows.items()
        gained = mean_difference(begin[TO_CLEAN], end[TO_CLEAN])
        findings += [
            at_least(gained, 0.0),
            at_least(mean_difference(end[TO_ATTACKED], end[TO_CLEAN]), 0.0),
        ]
        clean, attacked = ([mean(row[to]).value for row in (begin, end)] for to in (TO_CLEAN, TO_ATTACKED))
        figures.append(
            f"{key}, N = 0 to {last}: to the clean image {clean[0]:.4f} to {clean[1]:.4f} (nearer by "
            f"{gained.shown('.4f')}), to the attacked one {attacked[0]:.4f} to {attacked[1]:.4f}"
        )
    rule = (
        "To hold: the purified image ends nearer to the clean image than it began and (our addition) nearer to it than "
        "to the attacked image. Against oblivious attackers only: under PGD-20 on f."
    )
    oblivious = findings[:2]
    return Verdict(every(findings, otherwise=every(oblivious, OBLIVIOUS)), figures, rule)


EXPERIMENT = Experiment(
    Key,
    lambda sizes: [Cell(key, SYSTEM.needs) for key in KEYS],
    measure,
    view,
    title="Where the purified image goes",
    question="With more steps, does the purified image approach the clean image or the attacked one?",
    sizes={"n": (200, 20), "steps": (200, 20)},
    differs="The paper states that it approaches the clean image and shows no distances.",
    why="Distances differ little between images; 200 settle their means.",
    claims=(approaches,),
)
