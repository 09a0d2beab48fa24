"""table3: Unified ALU beside other test-time methods, what their authors claim, and what was left of it elsewhere."""

from __future__ import annotations

from functools import reduce
from typing import Any

from alu.paper import store, table2, views
from alu.paper.base import SUITE, Cell, Experiment, Sizes, System, Workbench
from alu.paper.claims import Verdict, ahead, best_case, better, by_attacker, claim
from alu.paper.store import ON_F, Measured, Reading, Results, answer, both, incomplete, ones, standing
from alu.paper.views import Colour, Panel, Row, Table, dot, dot_chart, percent, protocols
from alu.stats import mean


class Images(store.Images):
    """Clean images, and the same attacked on the classifier and through the purifier."""

    CLEAN = "clean"
    PGD_ON_F = f"pgd-20 {ON_F}"
    PGD_THROUGH = "pgd-20 through"
    AUTOATTACK_ON_F = f"autoattack {ON_F}"
    AUTOATTACK_THROUGH = "autoattack through"
    APGD_THROUGH = "apgd-20 through"

    @property
    def heading(self) -> str:
        """The name as a reader writes it."""
        return (super().heading + " the purifier" * self.through).replace("aPGD", "APGD")


COLUMNS = tuple(images for images in Images if images is not Images.APGD_THROUGH)
"""The columns of the two tables; the last attack is only what DiffPure claims to withstand."""


ADAPTIVE = "adaptive"
"""The column of the adaptive suite."""
OWN = "Unified ALU"
OWN_INPUT = f"{OWN}, input reading"
AT, UNIFIED, STANDARD, SOAP = "cifar10-at", "cifar10-unified", "cifar10-standard", "cifar10-soap"
SOAP_BASE = "SOAP's classifier alone"
ROWS: dict[str, tuple[System, Reading]] = {
    OWN: (System(UNIFIED, "cifar10-vae"), Reading.RECONSTRUCTION),
    OWN_INPUT: (System(UNIFIED, "cifar10-vae"), Reading.INPUT),
    "Unified, purified only": (System(UNIFIED, "cifar10-vae"), Reading.PURIFIED),
    "Adversarial training alone": (System(AT, "none"), Reading.PURIFIED),
    "Anti-Adversary": (System(AT, "anti-adversary"), Reading.PURIFIED),
    "Hedge Defense": (System(AT, "hedge"), Reading.PURIFIED),
    "AWP": (System("cifar10-awp", "none"), Reading.PURIFIED),
    "PCA-500 + ALU": (System(STANDARD, "cifar10-pca"), Reading.INPUT),
    "Blur + ALU": (System(STANDARD, "blur"), Reading.INPUT),
    SOAP_BASE: (System(SOAP, "none"), Reading.PURIFIED),
    "SOAP (Shi 2021)": (System(SOAP, "soap"), Reading.PURIFIED),
    "Reverse attack (Mao 2021)": (System(AT, "reverse:cifar10-contrastive@10"), Reading.PURIFIED),
    "ADP (Yoon 2021)": (System(STANDARD, "adp:cifar10-score"), Reading.PURIFIED),
    "Long-run EBM (Hill 2021)": (System(STANDARD, "long-run:cifar10-energy"), Reading.PURIFIED),
    "DiffPure (Nie 2022)": (System(STANDARD, "diffpure:cifar10-score@20"), Reading.PURIFIED),
}
ROBUST = (AT, "cifar10-awp")
"""Not in the quick form: AutoAttack alone takes longer than five minutes on what withstands it."""
NO_AUTOATTACK_THROUGH = ("Anti-Adversary", "Hedge Defense")
"""AutoAttack's thousands of steps through many steps of a classifier's own gradient are out of reach here."""
ON_F_ONLY = (Images.CLEAN, Images.PGD_ON_F)
BOTH = (*ON_F_ONLY, Images.PGD_THROUGH)
METHODS: dict[str, tuple[Images, ...]] = {
    SOAP_BASE: ON_F_ONLY,
    "SOAP (Shi 2021)": BOTH,
    "Reverse attack (Mao 2021)": (*BOTH, Images.AUTOATTACK_ON_F),
    "ADP (Yoon 2021)": BOTH,
    "Long-run EBM (Hill 2021)": ON_F_ONLY,
    "DiffPure (Nie 2022)": (*BOTH, Images.APGD_THROUGH),
}
"""Methods of many steps, not in the quick form: clean, PGD-20, and the attack that each claims to withstand. PGD
through a hundred steps of each chain of the long-run EBM is out of reach; it has no cheaper stand-in."""


class Key(store.Key, experiment="table3"):
    """A method on images, or under the adaptive suite."""

    row: str
    column: Images | str


def columns_of(row: str) -> tuple[Images, ...]:
    """The images that a row is measured on."""
    if row in METHODS:
        return METHODS[row]
    left_out = (Images.AUTOATTACK_THROUGH,) if row in NO_AUTOATTACK_THROUGH else ()
    return tuple(images for images in COLUMNS if images not in left_out)


def cells(sizes: Sizes) -> list[Cell[Key]]:
    """The images of each row, and the adaptive union."""
    listed = []
    for row, (system, _) in ROWS.items():
        if (system.classifier in ROBUST or row in METHODS) and not sizes["robust"]:
            continue
        listed += [Cell(Key(row, images), system.needs) for images in columns_of(row)]
        listed.append(Cell(Key(row, ADAPTIVE), system.needs, SUITE))
    return listed


def measure(bench: Workbench, key: Key) -> Measured:
    """The answers to clean or attacked images, or what the adaptive suite leaves."""
    from alu.attacks import with_grad_mode

    (system, reading), column = ROWS[key.row], key.column
    bare = system.purifier == "none"
    if not isinstance(column, Images):
        # A classifier alone meets the suite for classifiers, which has targeted APGD where others have the rest.
        return bench.union(bench.target(system, Reading.BARE if bare else reading), bench.test_images("adaptive"))
    images = bench.test_images("n" if column.attack in ("clean", "pgd-20") else "hard")
    if column is not Images.CLEAN:
        model: Any = bench.classifier(system.classifier)
        # Images attacked on f, or through no purifier, are the same for every row of a classifier.
        name = f"{column.replace('through', ON_F)} of {system.classifier}"
        if column.through and not bare:
            name = f"{column}, {system.purifier} of {system.classifier}"
            # A purifier that follows the classifier's gradient has no stand-in but the image itself: for it the
            # gradient is taken at what is handed out (BPDA). APGD takes the gradient of every step.
            deployed = bench.defense(system, Reading.PURIFIED)
            model = bench.surrogate(system) if deployed.purifier.stands_in else with_grad_mode(deployed, "bpda")
            model = deployed if column is Images.APGD_THROUGH else model
        images = bench.attacked(name, images, bench.attack(column.attack), model)
    return bench.purified_answers(system, images) if key.row in METHODS else bench.answers(system, images)


def left_of(results: Results, row: str) -> str:
    """What stands of a method under the adaptive suite, and under the table's own attacks on the same images."""
    cells = [results.get(Key(row, images)) for images in Images]
    return standing(results.need(Key(row, ADAPTIVE)), cells, *ROWS[row][1].path)


UNIFIED_PAPER = {dataset: rows["unified"][1] for dataset, rows in store.PUBLISHED["table2"].items()}
"""The paper's figures of Unified ALU, which are those of its table 2."""
STARS = (
    "Figures that the paper marks with a star (all of Hedge, AWP, SOAP, ADP, and the PGD-20 of the long-run EBM) are "
    "from other papers, most of them under attackers who knew less; AWP is a way of training. This is not a ranking."
)
TOGETHER = (
    "Every attack together: this table's attacks and the adaptive suite, budget quick. AutoAttack through methods of "
    "many steps is out of reach here: each of their answers takes several gradients, or passes of a network. "
    "Hedge, the reverse attack, ADP, the long-run EBM and DiffPure are random: their columns show one draw (of ADP and "
    "the EBM the mean of ten and of four), and every attack together counts the worst of ten."
)


def view(results: Results) -> list[Panel]:
    """Every method in both protocols, and beside what its authors claim."""
    rows, means, dots = [], "", []
    for name, (_, reading) in ROWS.items():
        if not any(results.record(Key(name, column)) for column in (*Images, ADAPTIVE)):
            continue
        columns, union = (
            {images: results.get(Key(name, images)) for images in COLUMNS},
            results.get(Key(name, ADAPTIVE)),
        )
        numbers = UNIFIED_PAPER["cifar10"] if name == OWN else store.PUBLISHED["table3"].get(name)
        # The paper attacks its own method through the VAE.
        paper, why = table2.paper_columns(numbers, name == OWN), results.why_empty(Key(name, Images.CLEAN))
        every = [results.get(Key(name, images)) for images in Images]
        rows.append(Row(name, list(columns.values()), reading.path, union, every, paper, why))
        means += _over_draws(name, union)
        pgd = [columns[images] for images in (Images.PGD_ON_F, Images.PGD_THROUGH) if images in columns_of(name)]
        if all(pgd):
            easy = reduce(both, (answer(cell or {}, *reading.path) for cell in pgd))
            dots.append(dot("PGD-20", ones(easy), Colour.BLUE, name, numbers[1] if numbers else None))
        if union:
            dots.append(dot("every attack", ones(left_of(results, name)), Colour.RED, name))
    legend = [
        ("the paper", Colour.GREY), ("here, PGD-20 on f and through the purifier (paper protocol)", Colour.BLUE),
        ("here, every attack together (standard protocol)", Colour.RED),
    ]  # fmt: skip
    return [
        *dot_chart("CIFAR-10: test-time methods", dots, legend),
        *protocols("CIFAR-10", [images.heading for images in COLUMNS], rows, STARS, TOGETHER + means),
        _claims(results),
        _elsewhere(results),
    ]


def _claims(results: Results) -> Table:
    """Each method under the attack that its authors claim to withstand and under all, beside what others report."""
    rows = []
    for name, known in store.PUBLISHED["claims of others"].items():
        path, under = ROWS[name][1].path, Images(known["under"])
        shown = [results.get(Key(name, images)) for images in (Images.CLEAN, Images.PGD_ON_F, under)]
        if not any(shown):
            rows.append([name, results.why_empty(Key(name, Images.CLEAN))])
            continue
        here = views.paper_protocol(shown, *path)
        union = results.get(Key(name, ADAPTIVE))
        left = percent(left_of(results, name)) + incomplete(union) if union else "–"
        paper = store.PUBLISHED["table3"].get(name, (None, None))[1]
        published = [views.paper_number(paper), *(f"{known[what][0]:g}" for what in ("claimed", "left"))]
        rows.append([name, *here[:2], f"{under.heading}: {here[2]}", left, *published])
    header = [
        "", "clean", Images.PGD_ON_F.heading, "the attack it claims to withstand", "every attack together",
        "the paper, PGD-20", "claimed", "strongest break",
    ]  # fmt: skip
    note = (
        "The first three columns in the paper protocol, every attack together in the standard one. Claimed and "
        "strongest break: the methods' own papers and later evaluations of them, on larger networks than ours; their "
        "bases are in the experiment rebreak. DiffPure's claim is about AutoAttack through everything; here APGD takes "
        "20 steps, each averaged over 4 draws, with the gradient of all its steps. Of DiffPure the strongest figure "
        "counts the worst of ten draws; single draws keep 45 to 47."
    )
    return Table("CIFAR-10: what the authors claim, and what is left of it", header, rows, note)


def _over_draws(row: str, union: Measured | None) -> str:
    """What the mean draw of a random method answers, beside the worst one."""
    if union is None or "right draws" not in union:
        return ""
    clean, least = (percent(mean(union["right draws"][when])) for when in ("clean", "adaptive"))
    return (
        f" {row}, average of ten draws, percent: {clean} right clean, and at most {least} under every attack of the "
        "suite; an image that one draw gets wrong is not attacked further."
    )


def _elsewhere(results: Results) -> Table:
    """The paper's numbers on the other data sets, and Unified ALU there, which table 2 measures."""
    sets = ("cifar100", "tiny-imagenet")
    columns = [column for column in store.Column if column is store.Column.CLEAN or column.through]
    rows = []
    for name, known in (store.PUBLISHED["table3 elsewhere"] | {OWN: UNIFIED_PAPER}).items():
        numbers = [number for dataset in sets for number in known.get(dataset, (None,) * 3)]
        rows.append([f"{name}: the paper", *map(views.paper_number, numbers)])
    cells = [results.get(table2.Key(f"{dataset}-unified", column)) for dataset in sets for column in columns]
    rows.append([f"{OWN}: here", *views.paper_protocol(cells, "reconstruction", "alu")])
    header = ["", *(f"{dataset}, {attack}" for dataset in sets for attack in ("clean", "PGD-20", "AutoAttack"))]
    note = "Ours: reconstruction reading, attacks on f(D(E)); the other methods are measured on CIFAR-10 only."
    return Table("CIFAR-100 and tiny-ImageNet: right answers, percent (paper protocol)", header, rows, note)


OURS = {Reading.RECONSTRUCTION: OWN, Reading.INPUT: OWN_INPUT}
OTHERS = ("Anti-Adversary", "Hedge Defense", "AWP")


@claim("unified ALU outperforms other test-time methods", "It surpasses methods that adapt at test time.")
def outperforms(results: Results) -> Verdict:
    """Unified ALU in each reading beside each other method, on the same images. A union of another method that was not
    measured leaves its comparison open; what the others settle is settled."""
    figures, stamps, easy, left = [], [], {}, {}
    others = [*OTHERS, *(row for row in METHODS if row != SOAP_BASE and results.get(Key(row, Images.PGD_ON_F)))]
    for row in (*OURS.values(), *others):
        easy[row] = answer(results.need(Key(row, Images.PGD_ON_F)), *ROWS[row][1].path)
        union = results.get(Key(row, ADAPTIVE)) if row in others else results.need(Key(row, ADAPTIVE))
        left[row] = left_of(results, row) if union else ""
        stamps.append(incomplete(union or {}))
        name = f"{OWN}, reconstruction" if row == OWN else row
        together = percent(left[row]) if union else "not measured"
        figures.append(f"{name}: PGD-20 on f {percent(easy[row])}, every attack together {together}")
    statuses = {}
    for reading, row in OURS.items():
        oblivious = [better(easy[row], easy[other]) for other in others]
        adaptive = [ahead(left[row], left[other]) if left[other] else None for other in others]
        statuses[reading] = by_attacker(adaptive, oblivious)
    rule = (
        "To hold: better than each by the sign test under all attacks. Against oblivious attackers only: PGD-20 on f."
    )
    return best_case(statuses, figures, rule).unless_incomplete(stamps)


EXPERIMENT = Experiment(
    Key,
    cells,
    measure,
    view,
    title="Table 3: Unified ALU beside other test-time methods",
    question="Is it better than other test-time methods when all of them meet the same attackers?",
    sizes={"calibration": (2_500, 200), "n": (500, 30), "hard": (100, 4), "adaptive": (50, 4), "robust": (1, 0)},
    differs=(
        "The paper takes most rows from other papers, on larger networks with more data, and with attackers who knew "
        "different things. Here all rows meet PGD-20 on f and through the purifier, and an adaptive suite; a bare "
        "classifier meets the suite for classifiers. Anti-Adversary, Hedge and the reverse attack run on our own "
        "robust classifier, SOAP on one of its own, ADP, the EBM and DiffPure on the standard one, with small networks "
        "of our own. Fewer steps than their authors': the reverse attack 10 of 40, DiffPure 20 of 100, the EBM 100 of "
        "1,500."
    ),
    why="AutoAttack and the adaptive suite take most of the time; see table 2.",
    leaves_out=(
        "Left out: robust classifiers, on which AutoAttack alone takes longer than five minutes, and methods of many "
        "steps."
    ),
    claims=(outperforms,),
)
