"""logit-change: how logits move under attack: does the true one fall most, and do the others stay?"""

from __future__ import annotations

from alu.paper import store
from alu.paper.base import Cell, Experiment, Tensor, Workbench
from alu.paper.claims import Verdict, at_least, at_most, best_case, claim, every
from alu.paper.store import PUBLISHED, Measured, Results, digits, ones, rounded
from alu.paper.views import Panel, Table, percent
from alu.report.charts import Chart, bars
from alu.stats import Share, mean, ratio

STANDARD, ROBUST = CLASSIFIERS = ("cifar10-standard", "cifar10-at")
ATTACKS = ("pgd-20", "cw-linf", "autoattack")


class Key(store.Key, experiment="logit-change"):
    """An attack on a classifier."""

    classifier: str
    attack: str


KEYS = [Key(classifier, attack) for classifier in CLASSIFIERS for attack in ATTACKS]


def measure(bench: Workbench, key: Key) -> Measured:
    """Of the images answered rightly clean and wrongly attacked: which case of the paper each is, whether the true
    logit fell most, and how far the true, the answered and the other logits moved."""
    import torch

    # A robust classifier costs AutoAttack a hundred times as much as one that falls at once.
    clean = bench.test_images("robust" if key == Key(ROBUST, "autoattack") else "n")
    name, network = f"{key.attack} on {key.classifier}", bench.classifier(key.classifier)
    images = bench.attacked(name, clean, bench.attack(key.attack), network)
    before, after = (bench.logits(key.classifier, some) for some in (clean, images))
    success = (before.argmax(1) == clean.labels) & (after.argmax(1) != clean.labels)
    before, after, labels = before[success], after[success], clean.labels[success]
    moved, answer = after - before, after.argmax(1)
    own, theirs = _of(moved, labels), _of(moved, answer)
    others = torch.ones_like(moved, dtype=torch.bool)
    others.scatter_(1, labels[:, None], False).scatter_(1, answer[:, None], False)
    rest = moved.abs().masked_fill(~others, 0).sum(1) / others.sum(1)
    case = torch.where(own >= 0, 3, torch.where(theirs > 0, 1, 2))
    measured: Measured = {
        "n": len(clean), "attacked": digits(success), "true falls most": digits(moved.argmin(1) == labels),
        "case": "".join(map(str, case.tolist())), "true": rounded(own), "answered": rounded(theirs),
        "others, mean size": rounded(rest),
    }  # fmt: skip
    if len(labels):
        at = int(own.argsort()[len(own) // 2])  # the middle one, so that nobody chose it
        measured["example"] = {
            "classes": list(clean.classes), "true": int(labels[at]), "answer": int(answer[at]),
            "before": rounded(before[at]), "after": rounded(after[at]),
        }  # fmt: skip
    return measured


def _of(logits: Tensor, labels: Tensor) -> Tensor:
    return logits.gather(1, labels[:, None]).squeeze(1)


def view(results: Results) -> list[Panel]:
    """Which logit falls most, the three cases, how far each kind of logit moves, and one image."""
    rows = []
    panels: list[Panel] = []
    for key, measured in results.measured(KEYS):
        cases = [percent(Share(measured["case"].count(case), len(measured["case"]))) for case in "123"]
        moves = [mean(measured[name]).shown("+.2f") if measured[name] else "–" for name in ("true", "answered")]
        others = mean(measured["others, mean size"]).shown() if measured["others, mean size"] else "–"
        rows.append([str(key), percent(measured["true falls most"]), *cases, *moves, others])
        if "example" in measured and key == Key(STANDARD, "pgd-20"):
            one = measured["example"]
            drawing = bars(one["classes"], one["before"], one["after"], one["true"])
            caption = "One image's logits: clean (grey) and under PGD-20 (blue); the true class in bold"
            note = "The image whose true logit fell by the median."
            panels.append((Chart(caption, drawing, note=[note]),))
    header = [
        "classifier/attack", "true logit falls most", "case 1", "case 2", "case 3", "true, mean change",
        "answered, mean change", "others, mean size of change",
    ]  # fmt: skip
    note = f"Successful attacks on images that were right clean. The paper: {100 * PUBLISHED['true falls most']:.2f} %."
    return [Table("Logit changes, percent of successful attacks", header, rows, note), *panels]


def _measured_classifiers(results: Results) -> list[str]:
    """The classifiers that were attacked; the first in any case, so that its absence is noticed."""
    return [STANDARD, *([ROBUST] if results.get(Key(ROBUST, "pgd-20")) else [])]


@claim("other logits move little", "Only the true and the adversarial logit change much.")
def others_stay(results: Results) -> Verdict:
    """How far the logits of other classes move, on each classifier that was measured."""
    figures, statuses = [], {}
    for classifier in _measured_classifiers(results):
        measured = results.need(Key(classifier, "pgd-20"))
        others, own = measured["others, mean size"], [-change for change in measured["true"]]
        moved = ratio(others, own)
        statuses[classifier] = every([at_most(moved, 0.25)])
        figures.append(
            f"{classifier}, PGD-20, {moved.n} successes: other logits move by {mean(others).shown()} on average, the "
            f"true one falls by {mean(own).shown()}: {moved.shown('.0%')} of it"
        )
    return best_case(statuses, figures, "To hold: at most 25 %.")


@claim("the true logit falls most", "In 99.69 % of successful attacks the true logit falls most.")
def true_falls(results: Results) -> Verdict:
    """How often the true logit falls most, on each classifier that was measured."""
    figures, statuses = [f"The paper, which names no attack: {100 * PUBLISHED['true falls most']:.2f}"], {}
    for classifier in _measured_classifiers(results):
        findings = []
        for attack in ATTACKS:
            fell = ones(results.need(Key(classifier, attack))["true falls most"])
            findings.append(at_least(fell, 0.95))
            figures.append(f"{classifier}, {attack}: {percent(fell)}")
        statuses[classifier] = every(findings)
    return best_case(statuses, figures, "To hold: at least 95 % of the successes of each attack.")


EXPERIMENT = Experiment(
    Key,
    lambda sizes: [Cell(key, (key.classifier,)) for key in KEYS],
    measure,
    view,
    title="How logits change under attack",
    question="Does the true logit fall most, and do the logits of other classes stay where they were?",
    sizes={"n": (500, 100), "robust": (100, 4)},
    differs="The paper counts successful attacks of one kind on one network; here three attacks on two networks.",
    why="500 test images come with the package; AutoAttack on the robust classifier takes most of the time.",
    claims=(others_stay, true_falls),
)
