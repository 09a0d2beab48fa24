"""bpda: BPDA-EOT on plug-in, unified and asymmetric unified ALU: does asymmetry stop it?"""

from __future__ import annotations

from alu.paper import store
from alu.paper.base import EPS, SUITE, Cell, Experiment, Sizes, System, Workbench
from alu.paper.claims import FAILS, Verdict, at_least, at_most, claim, every
from alu.paper.store import ALU_READINGS, Measured, Reading, Results, both, digits, incomplete, ones, outcomes, select
from alu.paper.views import Panel, Row, percent, protocols

SYSTEMS = {
    "plug-in": System("cifar10-standard", "cifar10-vae"),
    "unified": System("cifar10-unified", "cifar10-vae"),
    "asymmetric": System("cifar10-asymmetric", "cifar10-asymmetric"),
}
"""The asymmetric classifier reads the features of its own VAE."""
SUBJECTS = (
    *(("plug-in", reading) for reading in (*ALU_READINGS, Reading.PURIFIED)),
    *(("unified", reading) for reading in (*ALU_READINGS, Reading.PURIFIED)),
    ("asymmetric", Reading.RECONSTRUCTION),
    ("asymmetric", Reading.PURIFIED),
)
"""Systems and their readings; an asymmetric classifier cannot read the image itself."""
CLEAN, BPDA, SURROGATE, ADAPTIVE = "clean", "bpda-eot", "surrogate pgd", "adaptive"
COLUMNS = {CLEAN: "clean", BPDA: "BPDA-EOT", SURROGATE: "surrogate PGD"}


class Key(store.Key, experiment="bpda"):
    """A system in one reading under an attack."""

    system: str
    reading: Reading
    column: str


def cells(sizes: Sizes) -> list[Cell[Key]]:
    """Clean, BPDA-EOT and the surrogate attack on every system and reading it has, and the adaptive union."""
    return [
        Cell(Key(system, reading, column), SYSTEMS[system].needs, SUITE if column == ADAPTIVE else 1)
        for system, reading in SUBJECTS
        for column in (*COLUMNS, ADAPTIVE)
    ]


def measure(bench: Workbench, key: Key) -> Measured:
    """Right, wrong or rejected for each image, and whether it was flagged; or what the adaptive suite leaves."""
    from alu.attacks import BPDAEOT, PGD

    system = SYSTEMS[key.system]
    defense = bench.defense(system, key.reading)
    if key.column == ADAPTIVE:
        return bench.union(defense, bench.test_images("adaptive"))
    images, steps = bench.test_images(), bench.sizes["steps"]
    if key.column == BPDA:
        # The defence is deterministic, so that one draw is the expectation.
        attack = BPDAEOT(eps=EPS, steps=steps, draws=1, loss="margin", seed=bench.seed)
        images = bench.attacked(f"{BPDA} on {key.system}, {key.reading}", images, attack, defense)
    if key.column == SURROGATE:  # which knows nothing of readings
        pgd = PGD(eps=EPS, steps=steps, seed=bench.seed)
        images = bench.attacked(f"{SURROGATE} on {key.system}", images, pgd, bench.surrogate(system))
    decision = defense.decide(images.images)
    return {"n": len(images), "outcome": outcomes(decision, images.labels), "flagged": digits(decision.flagged)}


def standing(results: Results, system: str, reading: Reading) -> str:
    """Standard protocol: images that stand under the adaptive suite and the experiment's own attacks."""
    cells = [results.get(Key(system, reading, column)) for column in COLUMNS]
    return store.standing(results.need(Key(system, reading, ADAPTIVE)), cells, "outcome")


IDENTITY = (
    "BPDA replaces the derivative of purification by that of the identity. The asymmetric classifier reads features, "
    "which have another shape than the image, so the identity does not fit, as the paper says; there the gradient goes "
    "through the inner decoder and the encoder."
)


def view(results: Results) -> list[Panel]:
    """Each system under each attack, in both protocols."""
    rows = []
    for subject in SUBJECTS:
        cells = [results.get(Key(*subject, column)) for column in COLUMNS]
        union, clean = results.get(Key(*subject, ADAPTIVE)), Key(*subject, CLEAN)
        if results.record(clean):
            rows.append(Row(", ".join(subject), cells, ("outcome",), union, why=results.why_empty(clean)))
    return protocols("CIFAR-10", COLUMNS.values(), rows, IDENTITY)


WAYS = {
    "unified": "",
    "asymmetric": " (gradient through inner decoder and encoder, since the identity does not fit)",
}
"""How the gradient gets from what is purified to the image."""


@claim("asymmetry stops BPDA", "BPDA-EOT fails if the classifier reads an inner layer.")
def asymmetry(results: Results) -> Verdict:
    """BPDA-EOT on the symmetric and on the asymmetric system, and what other attackers leave."""
    figures, left = [], {}
    for system, way in WAYS.items():
        keys = [Key(system, Reading.RECONSTRUCTION, column) for column in COLUMNS]
        clean, *attacked = (results.need(key)["outcome"] for key in keys)
        # Of the images that are right clean, so that a weak classifier is not taken for a strong attack.
        left[system] = [ones(select(outcome, clean)) for outcome in attacked]
        bpda, through = (percent(both(clean, outcome)) for outcome in attacked)
        figures.append(f"{system}: clean {percent(clean)}, BPDA-EOT{way} {bpda}, PGD through the encoder {through}")
    union = results.need(Key("asymmetric", Reading.RECONSTRUCTION, ADAPTIVE))
    together = standing(results, "asymmetric", Reading.RECONSTRUCTION)
    figures.append(f"asymmetric, every attack together {percent(together)}")
    broken = at_most(left["unified"][0], 0.5)
    kept = [at_least(share, 0.5) for share in left["asymmetric"]]
    status = every([broken, *kept])
    if not broken:
        figures.append("BPDA-EOT does not break the symmetric system either, so asymmetry stops nothing")
    if kept == [True, False]:
        status = FAILS
        figures.append("The gradient through encoder and decoder finds what BPDA-EOT does not")
    rule = (
        "To hold, of the images right clean: BPDA-EOT breaks half on the symmetric system, and neither it nor PGD "
        "through the encoder breaks half on the asymmetric one."
    )
    return Verdict(status, figures, rule).unless_incomplete([incomplete(union)])


EXPERIMENT = Experiment(
    Key,
    cells,
    measure,
    view,
    title="BPDA-EOT and asymmetry",
    question="Is an asymmetric generator, whose output is no image, safe from BPDA-EOT?",
    sizes={"calibration": (2_500, 200), "n": (200, 8), "steps": (40, 10), "adaptive": (50, 4)},
    differs=(
        "The paper argues by the shapes of input and output and gives no figures. An attacker needs some "
        "differentiable way from image to features, not equal shapes: encoder and inner decoder are such a way."
    ),
    why="Every attack step purifies every image.",
    claims=(asymmetry,),
)
