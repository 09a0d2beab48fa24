"""Errors as sentences: who, what was expected, what came, what to do next."""

from __future__ import annotations

from collections.abc import Iterable


class AluError(ValueError):
    """Anything a user can put right; the message is a sentence and `exit_code` is the command's."""

    exit_code = 1


class UsageError(AluError):
    """The call itself is wrong: an unknown name, a value out of range, two options that exclude each other."""

    exit_code = 2


class InputError(AluError):
    """Images, labels or logits are not what the caller promised."""


class NoGradientError(InputError):
    """What is attacked along its gradient has none."""


class DataError(AluError):
    """A data set is missing, damaged or not in the layout it should have."""


class NotFittedError(AluError):
    """A part is used before it has seen the images it must be fitted or calibrated on."""


class StorageError(AluError):
    """A file cannot be read or written."""


class UntrustedError(AluError):
    """A file or a name would run somebody's code, and the user has not said that they trust it."""


class WorkersError(AluError):
    """Other processes that should share the work cannot be started, reached or given it, or were lost."""


class MissingExtraError(AluError):
    """An optional dependency is not installed."""

    def __init__(self, who: str, package: str, extra: str) -> None:
        super().__init__(
            f"{who} needs the package {package}, which is not installed. In a checkout of alu, run: "
            f"pip install -e '.[{extra}]'"
        )


class DivergedError(AluError):
    """A training's loss is no longer a number."""


def check_choice(what: str, value: str, known: Iterable[str]) -> None:
    """Refuse a value that is not among the known ones, and offer the nearest."""
    if value not in (choices := list(known)):
        raise UsageError(f"There is no {what} {value!r}. {nearest(str(value), choices)}")


def nearest(name: str, known: list[str]) -> str:
    """A half-sentence that offers the names closest to a mistyped one, or all of them."""
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=3, cutoff=0.5)
    if close:
        return "Did you mean " + " or ".join(close) + "?"
    return "Known names: " + ", ".join(sorted(known)) + "."
