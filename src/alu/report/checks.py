"""What the evaluation says about itself: its diagnostics with their explanations, and where its numbers come from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from alu.evaluation.result import Diagnostic, Result

EXPLAINED = {
    "black-box": "Attacks that need no gradient run last. If they break images that every gradient attack left "
    "standing, the gradients were masked or their budget too small, and the true robust accuracy is "
    "lower than the one shown.",
    "left-the-ball": "Every attacked image must lie within eps of its original and inside [0, 1]. An attack that "
    "leaves this ball breaks images that the threat model does not allow, and its figures do not count.",
    "autoattack-flags": "AutoAttack watches for random defences, missing gradients and unusual logits, and warns when "
    "its own figure is not to be trusted. Its words are repeated unchanged.",
    "batch-size": "An image's answer must not depend on how many images come with it. Otherwise attacked images were "
    "judged in other company than users will send them in.",
    "batch-order": "An image's answer must not depend on its place in the batch, for the same reason.",
    "second-call": "The same image must get the same answer twice, unless the defence says that it is random; then it "
    "must be attacked and judged over several draws.",
    "gradients-on": "The output must be the same whether or not a gradient is asked for. A defence that differs shows "
    "the attacker another model than the one that is deployed.",
    "reseeding": "A call that fixes the global random state makes a random defence look steady, and its figures luck.",
    "gradients-usable": "Gradient attacks need gradients that are numbers and not zero. Where most are zero, such "
    "attacks stand still, and what they leave standing proves nothing.",
    "gradients-mislead": "A small step along the gradient should bring the image closer to a wrong answer. If it often "
    "does not, the gradient points elsewhere and attacks that follow it are weak.",
    "eps-monotone": "A larger ball contains the smaller one, so right answers can only become fewer as eps grows. "
    "Where they become more, the attack is failing.",
    "eps-large": "In a very large ball almost any image can be reached, so hardly any answer should stay right. Where "
    "many do, the attack is failing.",
    "more-steps": "If many more steps still break many more images, the attack had not converged, and the figure shown "
    "is too high.",
    "more-restarts": "If a few more starts break many more images, one start was too few, and the figure shown is too "
    "high.",
    "oblivious": "Images that were made for the bare classifier should not break more than a search along the gradient "
    "of what is deployed. If they do, that gradient is masked, and attacks that follow it prove little.",
    "restarts": "An attack keeps the best of its restarts, so that more of them can only break more images. Where they "
    "break fewer, the attack returns a worse image than one it had found, and its figures are too high.",
    "noise": "Random noise of the same size must break fewer images than the attack. If it breaks as many, the attack "
    "finds nothing that chance does not.",
}


def diagnostics(key: str, result: Result) -> list[str]:
    """Every check with its verdict; those that failed stand open."""
    parts = [f'<h2 id="{key}-diagnostics">Can these figures be trusted?</h2>']
    if not result.diagnostics:
        return [*parts, "<p>No diagnostic was run, so nothing speaks for these figures but the attacks themselves.</p>"]
    parts.append("<p>The evaluation checks itself. Open a line for what it means.</p>")
    order = {"failed": 0, "not run": 1, "passed": 2}
    for item in sorted(result.diagnostics, key=lambda item: order.get(item.verdict, 0)):
        parts.append(_diagnostic(key, item))
    return parts


def _diagnostic(key: str, item: Diagnostic) -> str:
    name, kind = escape(item.id), escape(item.verdict.replace(" ", "-"))
    explained = escape(EXPLAINED.get(item.id, "This page knows no more about it."))
    state = " open" if item.verdict == "failed" else ""
    return (
        f'<details id="{key}-{name}" data-diagnostic="{name}" data-verdict="{escape(item.verdict)}"{state}>'
        f'<summary><strong class="{kind}">{escape(item.verdict)}</strong> · <a href="#{key}-{name}">{name}</a>: '
        f"{escape(item.says)}</summary><p>{explained}</p>"
        f'<p class="soft">More in the documentation: <code>docs/diagnostics.md#{name}</code></p></details>'
    )


def origin(key: str, result: Result) -> list[str]:
    """Commit, versions, processor, seed, data set, subject and threat model."""
    seconds = sum(record.seconds for record in result.attacks)
    facts: dict[str, Any] = {
        **result.provenance,
        "images": len(result.labels),
        **{f"data set {name}": value for name, value in result.dataset.items()},
        **{f"threat model {name}": value for name, value in result.threat.items()},
        "suite": result.suite,
        "budget": result.budget,
        "seconds attacking": round(seconds, 1),
        **_bare_seconds(result),
        **result.subject,
    }
    rows = "".join(
        f'<dt>{escape(name)}</dt><dd data-fact="{escape(name)}">{escape(_plain(value))}</dd>'
        for name, value in facts.items()
    )
    return [
        f'<h2 id="{key}-origin">Where these numbers come from</h2>',
        f'<dl class="facts">{rows}</dl>',
    ]


def _bare_seconds(result: Result) -> dict[str, float]:
    if result.bare is None:
        return {}
    return {"seconds attacking the bare classifier": round(sum(record.seconds for record in result.bare.attacks), 1)}


def _plain(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, Mapping | list) else str(value)
