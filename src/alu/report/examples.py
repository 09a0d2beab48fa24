"""Examples: clean image, perturbation, adversarial image and purified image, with the logits before and after."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from alu.evaluation.result import Result
from alu.report.charts import bars
from alu.report.figures import count, number

PICTURES = (
    ("clean", "clean"),
    ("perturbation", "perturbation"),
    ("adversarial", "adversarial"),
    ("purified", "purified"),
)
MOST_BARS = 10
OPEN = 2
"""Examples of each attack that are shown at once; the rest are a click away."""


def examples(key: str, result: Result) -> list[str]:
    """A grid of images, attack by attack."""
    if not result.examples:
        return []
    parts = [
        f'<h2 id="{key}-images">Images</h2>',
        '<p class="soft">Logits before purification in grey, after it in blue; the true class in bold. Perturbations '
        "are magnified: grey is no change, black and white are the whole of eps.</p>",
    ]
    for attack in dict.fromkeys(str(example["attack"]) for example in result.examples):
        mine = [
            _example(f"{key}/example/{index}", example, result)
            for index, example in enumerate(result.examples)
            if str(example["attack"]) == attack
        ]
        parts += [f"<h3>{escape(attack)}</h3>", *mine[:OPEN]]
        if len(mine) > OPEN:
            parts += ["<details><summary>more</summary>", *mine[OPEN:], "</details>"]
    return parts


def _example(key: str, example: dict[str, Any], result: Result) -> str:
    classes, true, answer = result.classes, int(example["true"]), int(example["answer"])
    mood = "high" if answer == true else "low"
    state = "flagged" if example["flagged"] else "not flagged"
    if example.get("score") is not None:
        state += f", score {number(f'{key}/score', example['score'])}"
    pictures = "".join(
        f'<figure><img src="{escape(str(example[name]))}" alt="{caption}"><figcaption>{caption}</figcaption></figure>'
        for name, caption in PICTURES
    )
    chosen = _chosen(example["before"], example["after"], (true, answer))
    chart = bars(
        [_name(classes, index) for index in chosen],
        [example["before"][index] for index in chosen],
        [example["after"][index] for index in chosen],
        chosen.index(true),
    )
    return (
        f'<div class="example"><p class="say">Image {count(f"{key}/number", result.numbers[example["image"]])}: '
        f'{escape(_name(classes, true))}, answered <span class="{mood}">{escape(_name(classes, answer))}</span> '
        f"({state})</p>{pictures}{chart}</div>"
    )


def _name(classes: Sequence[str], index: int) -> str:
    return classes[index] if index < len(classes) else str(index)


def _chosen(before: Sequence[float], after: Sequence[float], always: tuple[int, ...]) -> list[int]:
    """The classes whose bars are drawn: all if they are few, else those named and those with the highest logits."""
    every = range(len(before))
    if len(before) <= MOST_BARS:
        return list(every)
    ranked = sorted(every, key=lambda index: -max(before[index], after[index]))
    return sorted(list(dict.fromkeys([*always, *ranked]))[:MOST_BARS])
