"""table2: ALU on classifiers trained in seven ways, on three data sets."""

from __future__ import annotations

from collections.abc import Sequence

from alu.paper import store
from alu.paper.base import SUITE, Cell, Experiment, Sizes, System, Workbench
from alu.paper.claims import Finding, Verdict, ahead, at_least, best_case, by_attacker, claim, compared, gain
from alu.paper.store import ALU_READINGS, Adaptive, Column, Measured, Reading, Results, answer, incomplete, ones
from alu.paper.views import Colour, Panel, Row, Table, dot, dot_chart, percent, protocols
from alu.report.charts import Dot, dots, standalone

DATASETS = ("cifar10", "cifar100", "tiny-imagenet")
METHODS = {
    "standard": "Standard", "at": "Adversarial training", "trades": "TRADES", "fat": "FAT", "gairat": "GAIRAT",
    "mart": "MART", "unified": "Unified classifier",
}  # fmt: skip
"""Ways of training, and their names in the table."""
DEEP = ("standard", "at", "unified")
"""Methods whose AutoAttack and adaptive columns are measured on CIFAR-10 with more images."""
QUICK = ("standard", "unified")
"""Methods of the quick form: AutoAttack alone takes longer than five minutes on what withstands it."""
UNIONS = (Reading.BARE, *ALU_READINGS, Reading.PURIFIED)
COLUMNS = (
    Column.CLEAN, Column.PGD_ON_F, Column.PGD_ON_VAE, Column.AUTOATTACK_ON_F, Column.AUTOATTACK_ON_VAE,
)  # fmt: skip
"""The columns of the table, in the order in which they are shown."""
ATTACKS: list[Column] = [column for column in COLUMNS if column is not Column.CLEAN]
LONGEST = Column.AUTOATTACK_ON_VAE


class Key(store.Key, experiment="table2"):
    """A classifier on images of a column, or under the adaptive suite against a reading."""

    classifier: str
    column: Column | Adaptive

    @property
    def system(self) -> System:
        """The classifier behind the VAE of its data set."""
        return System(self.classifier, f"{self.classifier.rsplit('-', 1)[0]}-vae")

    @property
    def deep(self) -> bool:
        """Whether the classifier's long columns have more images than elsewhere."""
        return self.classifier in [f"cifar10-{method}" for method in DEEP]


def cells(sizes: Sizes) -> list[Cell[Key]]:
    """Clean, PGD-20 and AutoAttack on the classifier and through the VAE, and the union against each reading."""
    listed: list[Cell[Key]] = []
    for dataset in DATASETS[: sizes["datasets"]]:
        for method in METHODS if sizes["methods"] == len(METHODS) else QUICK:
            name = f"{dataset}-{method}"
            columns = [Key(name, column) for column in COLUMNS if column is not LONGEST]
            unions = [Key(name, Adaptive(reading)) for reading in UNIONS]
            listed += [Cell(key, key.system.needs) for key in columns]
            listed += [Cell(key, key.system.needs, SUITE) for key in unions]
            # By far the longest of a robust row comes last: what an interrupted run has by then says most.
            longest = Key(name, LONGEST)
            listed.append(Cell(longest, longest.system.needs))
    return listed


def measure(bench: Workbench, key: Key) -> Measured:
    """The answers to clean or attacked images, or what the adaptive suite leaves."""
    system, column = key.system, key.column
    if isinstance(column, Adaptive):
        # What a robust classifier withstands would take days with "standard"; its AutoAttack counts in the union.
        long = key.deep and not key.classifier.endswith("-at") and bench.sizes["standard"]
        images = bench.images(system.dataset, "test", bench.sizes["adaptive" if key.deep else "elsewhere"])
        return bench.union(bench.target(system, column.reading), images, "standard" if long else "quick")
    size = ("hard" if key.deep else "elsewhere") if column.attack == "autoattack" else "n"
    clean = bench.images(system.dataset, "test", bench.sizes[size])
    measured = bench.answers(system, bench.attacked_as(column, system, clean))
    if column is not Column.CLEAN:
        measured["knowledge"] = "surrogate" if column.through else "oblivious"
    return measured


def standing(results: Results, classifier: str, reading: Reading) -> str:
    """Standard protocol: images that are right clean, under the adaptive suite and under the table's own attacks."""
    cells = [results.get(Key(classifier, column)) for column in COLUMNS]
    return store.standing(results.need(Key(classifier, Adaptive(reading))), cells, *reading.path)


def union_of(results: Results, classifier: str, reading: Reading) -> Measured | None:
    """What the adaptive suite leaves, with attacks of the table itself that were not run among the unmet ones."""
    union = results.get(Key(classifier, Adaptive(reading)))
    # A bare classifier has nothing to be attacked through.
    needed = [column for column in ATTACKS if reading is not Reading.BARE or not column.through]
    missing = [f"{column} not run" for column in needed if not results.get(Key(classifier, column))]
    return {**union, "unmet": [*union.get("unmet", []), *missing]} if union else None


def unfinished(results: Results, classifier: str, reading: Reading) -> str:
    """A stamp where an attack of the adaptive suite, or of the table itself, is missing; else nothing."""
    return incomplete(union_of(results, classifier, reading) or {})


LABELS = {
    Reading.BARE: "",
    Reading.PURIFIED: "+ purification",
    Reading.INPUT: "+ ALU, input reading",
    Reading.RECONSTRUCTION: "+ ALU, reconstruction",
}
ON_PAPER = (
    "The paper's figures are those of the bare classifier under attacks on f, and of ALU under attacks on f(D(E)), "
    "which the paper calls white-box."
)
ON_STANDARD = "Every attack together: this table's attacks and the adaptive suite."


def view(results: Results) -> list[Panel]:
    """A picture of each data set, then two tables: the paper protocol beside the paper's numbers, and the standard."""
    panels: list[Panel] = []
    legend = [
        ("ALU, the paper", Colour.GREY), ("ALU here, the same attack (paper protocol)", Colour.BLUE),
        ("ALU here, every attack together (standard protocol)", Colour.RED), ("without ALU, both", Colour.BLACK),
    ]  # fmt: skip
    for dataset in DATASETS:
        panels += dot_chart(f"{dataset}: ALU in the reconstruction reading", _dots(results, dataset), legend)
    for dataset in DATASETS:
        rows = [row for method in METHODS for row in _method(results, dataset, method)]
        columns, notes = [column.heading for column in COLUMNS], (ON_PAPER, ON_STANDARD + _budgets(results, dataset))
        panels += protocols(dataset, columns, rows, *notes) if rows else []
    return panels or [Table.empty("Right answers, percent")]


def _method(results: Results, dataset: str, method: str) -> list[Row]:
    """The rows of one classifier; the paper's alone where it has not been measured, and none where nobody tried."""
    classifier, name = f"{dataset}-{method}", METHODS[method]
    cells = [results.get(Key(classifier, column)) for column in COLUMNS]
    bare, alu = store.PUBLISHED["table2"][dataset][method]
    papers = {Reading.BARE: paper_columns(bare), Reading.RECONSTRUCTION: paper_columns(alu, through=True)}
    clean = Key(classifier, Column.CLEAN)
    if not any(cells) and not results.record(clean):
        return []
    if not any(cells):
        own = Row(name, cells, ("bare",), paper=papers[Reading.BARE], why=results.why_empty(clean))
        return [own, Row(f"{name} + ALU, reconstruction", cells, ("bare",), paper=papers[Reading.RECONSTRUCTION])]
    rows = [
        Row(label or name, cells, reading.path, union_of(results, classifier, reading), paper=papers.get(reading, ()))
        for reading, label in LABELS.items()
    ]
    return [*rows, Row("+ ALU, rec., if all were flagged", cells, ("reconstruction", "all flagged"))]


def paper_columns(numbers: Sequence[float | None] | None, through: bool = False) -> list[float | None]:
    """Clean, PGD-20 and AutoAttack of the paper, under attacks on f or through the purifier, as columns."""
    if numbers is None:
        return []
    on_f = (Column.CLEAN, Column.PGD_ON_F, Column.AUTOATTACK_ON_F)
    on_vae = (Column.CLEAN, Column.PGD_ON_VAE, Column.AUTOATTACK_ON_VAE)
    known = dict(zip(on_vae if through else on_f, numbers, strict=True))
    return [known.get(column) for column in COLUMNS]


def _budgets(results: Results, dataset: str) -> str:
    """Which suite each classifier met, as a sentence."""
    met: dict[str, list[str]] = {}
    for method, name in METHODS.items():
        union = results.get(Key(f"{dataset}-{method}", Adaptive(Reading.RECONSTRUCTION)))
        if union:
            met.setdefault(union.get("budget", "quick"), []).append(name)
    return "".join(f" Budget {budget}: {', '.join(names)}." for budget, names in met.items())


def _dots(results: Results, dataset: str) -> list[Dot]:
    """For each classifier: ALU in the paper's column, and what every attack together leaves."""
    rows: list[Dot] = []
    column = Column.PGD_ON_VAE
    for method, name in METHODS.items():
        classifier, (_, paper) = f"{dataset}-{method}", store.PUBLISHED["table2"][dataset][method]
        measured = results.get(Key(classifier, column))
        if not measured:
            continue
        alu = ones(answer(measured, "reconstruction", "alu"))
        rows += [
            dot(f"+ ALU, {column.heading}", alu, Colour.BLUE, name, paper[1]),
            dot(f"without ALU, {column.heading}", ones(measured["bare"]), Colour.BLACK, name),
        ]
        readings = (Reading.RECONSTRUCTION, Reading.BARE)
        if all(results.get(Key(classifier, Adaptive(reading))) for reading in readings):
            # One without the other would compare two attackers.
            left, bare = (ones(standing(results, classifier, reading)) for reading in readings)
            rows += [
                dot("+ ALU, every attack", left, Colour.RED, name),
                dot("without ALU, every attack", bare, Colour.BLACK, name),
            ]
    return rows


def summary(results: Results) -> str:
    """CIFAR-10 as a picture file of its own, for the README."""
    return standalone(dots("The paper and what was measured here", _dots(results, "cifar10")))


@claim("one purifier serves several attacks", "The same VAE helps against PGD and AutoAttack.")
def several_attacks(results: Results) -> Verdict:
    """The gain on PGD-20 and on AutoAttack, and what is left of it under every attack together."""
    rule = (
        "To hold: a gain of at least 50 points under each attack on f. Against all attackers: also under every attack "
        "together."
    )
    return _gains(results, ["cifar10-standard"], ATTACKS, 0.5, rule)


ROBUST = ("cifar10-at", "cifar10-trades", "cifar10-fat", "cifar10-gairat", "cifar10-mart")
LIFT = 0.1
"""What counts as help: the paper reports 21 to 48 points under PGD-20 on CIFAR-10."""


@claim("ALU helps adversarially trained classifiers too", "It raises robust classifiers as well.")
def helps_robust(results: Results) -> Verdict:
    """The gain on every adversarially trained classifier whose row has been measured, the first of them at least."""
    measured = [name for name in ROBUST if results.get(Key(name, Adaptive(Reading.RECONSTRUCTION)))]
    rule = (
        f"To hold: a gain of at least {100 * LIFT:.0f} points over each bare classifier under every attack "
        "together. Against oblivious attackers only: under PGD-20 on f."
    )
    names = list(dict.fromkeys((ROBUST[0], *measured)))
    return _gains(results, names, [Column.PGD_ON_F, Column.PGD_ON_VAE], LIFT, rule)


def _gains(results: Results, classifiers: list[str], columns: list[Column], least: float, rule: str) -> Verdict:
    """Whether ALU gains so much over each bare classifier: under the columns' attacks on f, and under all attacks."""
    figures, stamps = [], []
    adaptive: dict[Reading, list[Finding]] = {reading: [] for reading in ALU_READINGS}
    oblivious: dict[Reading, list[Finding]] = {reading: [] for reading in ALU_READINGS}
    for name in classifiers:
        for column in columns:
            cell = results.need(Key(name, column))
            answers = {Reading.BARE: cell["bare"], **{reading: cell[reading]["alu"] for reading in ALU_READINGS}}
            figures.append(_line(f"{name}, {column.heading}", answers))
            for reading in ALU_READINGS if not column.through else ():  # whose attacker does not know the defence
                oblivious[reading].append(at_least(gain(answers[reading], answers[Reading.BARE]), least))
        left = {reading: standing(results, name, reading) for reading in (Reading.BARE, *ALU_READINGS)}
        figures.append(_line(f"{name}, every attack together", left))
        stamps += [unfinished(results, name, reading) for reading in left]
        for reading in ALU_READINGS:
            adaptive[reading].append(at_least(gain(left[reading], left[Reading.BARE]), least))
    statuses = {reading: by_attacker(adaptive[reading], oblivious[reading]) for reading in ALU_READINGS}
    return best_case(statuses, figures, rule).unless_incomplete(stamps)


def _line(what: str, answers: dict[Reading, str]) -> str:
    return f"{what}: " + ", ".join(f"{reading} {percent(digits)}" for reading, digits in answers.items())


@claim("unified beats plug-in", "A classifier trained on the VAE's outputs is better still.")
def unified_better(results: Results) -> Verdict:
    """Unified beside plug-in, on the same images, in both readings."""
    names, figures, statuses = ("cifar10-unified", "cifar10-standard"), [], {}
    for reading in ALU_READINGS:
        findings = []
        for column in (Column.CLEAN, Column.PGD_ON_F, Column.PGD_ON_VAE, Column.AUTOATTACK_ON_VAE):
            unified, plug_in = (results.need(Key(name, column))[reading]["alu"] for name in names)
            findings.append(ahead(unified, plug_in))
            word = compared(unified, plug_in)
            figures.append(f"{reading}, {column}: unified {percent(unified)}, plug-in {percent(plug_in)} ({word})")
        unified, plug_in = (standing(results, name, reading) for name in names)
        n = min(len(unified), len(plug_in))
        statuses[reading] = by_attacker([ahead(unified[:n], plug_in[:n])], findings)
        figures.append(f"{reading}, every attack together: unified {percent(unified)}, plug-in {percent(plug_in)}")
    rule = "To hold: better by the sign test in each column. Against all attackers: also under every attack together."
    stamps = [unfinished(results, name, reading) for name in names for reading in ALU_READINGS]
    return best_case(statuses, figures, rule).unless_incomplete(stamps)


EXPERIMENT = Experiment(
    Key,
    cells,
    measure,
    view,
    title="Table 2: ALU on classifiers trained in seven ways",
    question="What does ALU add to a classifier, and what is left of that when the attacker knows the defence?",
    sizes={
        "calibration": (2_500, 200),
        "n": (500, 40),
        "hard": (100, 4),
        "adaptive": (100, 4),
        "elsewhere": (50, 4),
        "datasets": (3, 1),
        "methods": (7, 2),
        "standard": (1, 0),
    },
    differs=(
        "The paper's attacker uses the gradient of f(D(E)), not that of the latent steps, the threshold or the rule, "
        "and its accuracy counts attacked images whether or not their clean answer was right. Our networks "
        "are narrow ResNet-18s in place of ResNet-50s; CIFAR-100 and tiny-ImageNet are subsets. Our adversarial "
        "training takes 2 steps where 10 are usual, for 26 epochs on CIFAR-10 and 5 elsewhere; TRADES, FAT, GAIRAT and "
        "MART are fine-tuned from it for two epochs with 5 steps, Unified from Standard for four epochs."
    ),
    why=(
        "AutoAttack on a robust classifier and the adaptive suite take most of the time; the results file says how "
        "many seconds each cell took."
    ),
    leaves_out="Left out: other data sets, and robust classifiers, on which AutoAttack takes more than five minutes.",
    claims=(several_attacks, helps_robust, unified_better),
)
