"""State: what the tests of a defence say about one image. And Rows: what decisions in torch and in NumPy share."""

from __future__ import annotations

from dataclasses import fields
from enum import IntEnum
from typing import Any, Self


class State(IntEnum):
    """What the tests of a defence say about one image; a later one overrides an earlier one.

    Attacked: flagged. Suspicious: nearly flagged, with a p-value of at most the defence's `suspicious`. Corrupted: what
    purification took away is too large for an attack of the stated size.

    Examples
    --------
    >>> alu.State(int(defense.decide(images).state[0])).word
    'clean'
    """

    CLEAN = 0
    SUSPICIOUS = 1
    ATTACKED = 2
    CORRUPTED = 3

    @property
    def word(self) -> str:
        """Its name in a sentence."""
        return self.name.lower()


class Rows:
    """Base of dataclasses whose fields are arrays with a row for each image, `label`, `state` and `purified` among
    them: `rows[3]` is that of image 3, `rows[:10]` those of the first ten."""

    label: Any

    def __len__(self) -> int:
        return len(self.label)

    def __getitem__(self, at: Any) -> Self:
        """The rows of one image, with one value per field, or of several."""
        return type(self)(*(getattr(self, item.name)[at] for item in fields(type(self))))  # type: ignore[arg-type]

    def to_dict(self, purified: bool = False) -> dict[str, Any]:
        """Plain values by name, ready for JSON: NaN becomes None, states become words, and images are left out unless
        `purified`."""
        names = [item.name for item in fields(type(self)) if purified or item.name != "purified"]  # type: ignore[arg-type]
        plain = {name: _plain(getattr(self, name).tolist()) for name in names}
        states = plain["state"]
        plain["state"] = [State(one).word for one in states] if isinstance(states, list) else State(states).word
        return plain


def _plain(value: Any) -> Any:
    """The same value with None in place of NaN, which JSON does not have."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if value != value else value  # noqa: PLR0124
