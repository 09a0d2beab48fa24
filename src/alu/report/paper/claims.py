"""The paper's claims, one by one. Nothing is typed: every verdict follows from results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from alu.report.paper import glossary
from alu.report.paper.judges import answers, attackers, changes, methods, scores, steps
from alu.report.paper.judging import FAILS, FEW, HOLDS, OBLIVIOUS, UNKNOWN, Verdict
from alu.report.paper.results import MissingCellError, Results

WORDS = {
    HOLDS: ("holds", "hold"),
    OBLIVIOUS: (OBLIVIOUS, OBLIVIOUS.replace("holds", "hold", 1)),
    FAILS: ("does not hold", "do not hold"),
    FEW: ("had too few images to tell", "had too few images to tell"),
    UNKNOWN: ("is not measured yet", "are not measured yet"),
}
"""What became of one claim, and of several."""


@dataclass
class Noted(Results):
    """Results that remember which experiments were looked at."""

    looked_at: set[str] = field(default_factory=set)

    def cells(self, experiment: str) -> dict[str, Any]:
        """What each measured cell found."""
        self.looked_at.add(experiment)
        return super().cells(experiment)


@dataclass(frozen=True)
class Claim:
    """Something the paper says, where it can be seen, and how it is judged."""

    name: str
    says: str
    experiment: str
    judge: Callable[[Results], Verdict]

    def verdict(self, results: Results) -> Verdict:
        """The verdict, or that the cells it needs have not been measured."""
        read = Noted(results.experiments)
        try:
            found = self.judge(read)
        except MissingCellError as missing:
            found = Verdict(UNKNOWN, f"What is missing: {missing}.")
        else:
            if read.looked_at & results.quick:
                found = Verdict(FEW, f"A first look only, which says: {found.verdict}. {found.evidence}")
        others = sorted(read.looked_at - {self.experiment})
        return replace(found, read=(self.experiment, *others))


CLAIMS: tuple[Claim, ...] = (
    Claim("train and test scores overlap", "The score has the same distribution on training and test images.",
          "histogram", scores.overlap),
    Claim("clean and attacked scores are separable", "Clean and attacked images are told apart by the score.",
          "histogram", scores.separable),
    Claim("detection survives AutoAttack", "Table 2's accuracy under AutoAttack needs a detector that fires.",
          "histogram", scores.survives_autoattack),
    Claim("other logits move little", "Only the true and the adversarial logit change much.", "logit-change",
          changes.others_stay),
    Claim("the true logit falls most", "In 99.69 % of successful attacks the true logit falls most.", "logit-change",
          changes.true_falls),
    Claim("non-robust features carry the change", "A logit's change is that of the non-robust features.", "features",
          changes.equation),
    Claim("50 steps suffice", "Accuracy and detection rate are decent at about 50 latent steps.", "iterations",
          steps.fifty),
    Claim("a small learning rate is better", "Smaller learning rates perform better.", "learning-rate",
          steps.small_rate),
    Claim("accuracy under attack exceeds clean accuracy", "ALU is right more often on attacked than on clean images.",
          "artefacts", answers.above_clean),
    Claim("hard samples explain adversarial > clean", "It is right where the classifier partially recognises a sample.",
          "artefacts", answers.hard_samples),
    Claim("ALU adds to a denoiser", "Comparing logits recovers more labels than the denoised image alone.", "table1",
          answers.adds_to_denoiser),
    Claim("one purifier serves several attacks", "The same VAE helps against PGD and AutoAttack.", "table2",
          answers.several_attacks),
    Claim("ALU helps adversarially trained classifiers too", "ALU raises robust classifiers as well.", "table2",
          answers.helps_robust),
    Claim("unified beats plug-in", "A classifier trained on the VAE's outputs is better still.", "table2",
          answers.unified_better),
    Claim("unified ALU outperforms other test-time methods", "It surpasses methods that adapt at test time.", "table3",
          methods.outperforms),
    Claim("pattern-violating attacks are weak and slow", "Attacks that hold the true logit up win less and cost more.",
          "pattern-cost", attackers.pattern_weak),
    Claim("asymmetry stops BPDA", "BPDA-EOT fails if the classifier reads an inner layer.", "bpda",
          attackers.asymmetry),
    Claim("the purified image approaches the clean one", "With more steps the output approaches the clean image.",
          "convergence", changes.approaches),
    Claim("one step suffices in theory", "A positive learning rate exists that makes the answer right in one step.",
          "one-step", changes.one_step),
)  # fmt: skip


def judged(results: Results) -> dict[str, tuple[Claim, Verdict]]:
    """Every claim with its verdict."""
    return {claim.name: (claim, claim.verdict(results)) for claim in CLAIMS}


def sorted_out(results: Results) -> dict[str, list[tuple[Claim, Verdict]]]:
    """The claims under what became of them, in words that begin with how many there are."""
    made, every = {}, judged(results).values()
    for kind, words in WORDS.items():
        some = [(claim, verdict) for claim, verdict in every if verdict.verdict == kind]
        # Of a classifier: that a claim is about one reading only is said where it is looked at.
        narrow = sum(verdict.limit.startswith("On ") for _, verdict in some)
        if some:
            aside = f" ({narrow} on one classifier only)" if narrow else ""
            made[f"{len(some)} {words[len(some) > 1]}{aside}"] = some
    return made


def markdown(results: Results) -> str:
    """docs/claims.md, generated."""
    lines = [
        "# The paper's claims, judged",
        "",
        "Generated from `results/` by `python -m alu.report.paper.writing`; a test fails if this disagrees with them.",
        "Rules that were set or changed after their figures had been seen are listed in the [lab log](lab-log.md).",
        "Percentages carry their 95 % interval and n. The threat model is L∞, 8/255, unless said. In its words:",
        "",
        *(f"- **{word}**: {means}" for word, means in glossary.WORDS.items()),
        "",
    ]
    for claim, verdict in judged(results).values():
        lines += [f"## {claim.name}", "", f"The paper: {claim.says}", ""]
        lines += [f"**{verdict.verdict.capitalize()}.**", "", *(f"- {figure}" for figure in verdict.figures), ""]
        lines += [verdict.rule, ""] if verdict.rule else []
        lines += [f"Measured by {' and '.join(f'`alu reproduce {name}`' for name in verdict.read)}.", ""]
    return "\n".join(lines)


def facts(results: Results, name: str) -> dict[str, Any]:
    """Where an experiment's numbers come from."""
    known = results.experiments[name]
    commits = sorted({record["commit"] for record in known["cells"].values() if "commit" in record})
    return {"sizes": known["sizes"], "seed": known["seed"], "commits": commits, "why": known["why"]}
