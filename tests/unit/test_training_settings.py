"""Settings: what is refused, and the rate of each step."""

from __future__ import annotations

import math
from typing import Any

import pytest

from alu.errors import UsageError
from alu.training.settings import Settings


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        ("constant", [1, 1, 1]),
        ("one-cycle", [0.001, 0.625, 0.001]),
        ("cosine", [1, 0.5, 0.001]),
        ("steps", [1, 0.2, 0.2]),
    ],
)
def test_schedules(schedule: str, rates: list[float]) -> None:
    settings = Settings(lr=1.0, schedule=schedule, drops=((5, 0.2),))  # type: ignore[arg-type]
    found = [settings.rate(step, 100, step // 10) for step in (0, 50, 100)]
    assert found == pytest.approx(rates, abs=1e-6)


def test_drops_may_come_in_any_order() -> None:
    made = Settings(schedule="steps", lr=1.0, drops=((100, 0.04), (80, 0.2)))
    assert [made.rate(0, 1, epoch) for epoch in (79, 80, 99, 100)] == pytest.approx([1.0, 0.2, 0.2, 0.04])


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"momentum": -1.0}, r"momentum is a share in \[0, 1\)"),
        ({"momentum": 1.0}, r"momentum is a share in \[0, 1\)"),
        ({"weight_decay": -1.0}, "weight_decay of 0 or more; it is -1.0"),
        ({"clip": -1.0}, "clip of 0 or more; it is -1.0"),
        ({"drops": [[80, -0.2]]}, "a share between 0 and 1"),
    ],
)
def test_settings_out_of_range(setting: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Settings(**setting)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"epochs": 0}, "epochs above 0"),
        ({"epochs": 2.5}, "epochs is a whole number; 2.5 is none"),
        ({"epochs": "many"}, "epochs is a whole number; 'many' is none"),
        ({"epochs": True}, "epochs is a whole number; True is none"),
        ({"lr": "fast"}, "lr is a number; 'fast' is none"),
        ({"lr": math.nan}, "lr is a number; nan is none"),
        ({"schedule": "onecycle"}, "no schedule 'onecycle'. Did you mean one-cycle"),
        ({"augment": "flop"}, "no augment 'flop'. Did you mean flip"),
        ({"drops": 3}, "drops are pairs"),
        ({"average": 1.0}, "average is a decay"),
        ({"warmup": 0}, "warmup is a share"),
    ],
)
def test_wrong_settings_are_one_sentence(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        Settings(**changes)  # type: ignore[arg-type]


def test_settings_survive_json() -> None:
    settings = Settings(epochs=3, lr=1, schedule="steps", drops=((80, 0.2),))
    assert Settings(**settings.as_json()) == settings
