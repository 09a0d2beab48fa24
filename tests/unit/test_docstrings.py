"""Public names explain themselves: what they are, what each parameter means, and an example that runs."""

from __future__ import annotations

import doctest
import inspect
import re
import tempfile
from collections.abc import Callable
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import alu
from alu.defense import Defense
from alu.exported import Exported
from alu.loading import load_purifier

MODULES = (
    "alu.purifiers",
    "alu.detectors",
    "alu.attacks",
    "alu.attacks.adaptive",
    "alu.models",
    "alu.exported",
    "alu.integrations",
)
SECTION = re.compile(r"^(?P<title>[A-Z]\w+)\n-{3,}$", re.M)
SHARED = {"images", "batch_size", "evidence"}
"""What methods of a defence, exported or not, take; its class describes them once."""
LONGEST_EXAMPLE = 3


def public_names() -> dict[str, Any]:
    """Every public class and function, and the methods of a defence, by its full name."""
    things: dict[str, Any] = {"alu.loading.load_purifier": load_purifier}
    for place in MODULES:
        module = import_module(place)
        things |= {f"{place}.{name}": getattr(module, name) for name in module.__all__}
    for name in (
        "Client",
        "Decision",
        "Defense",
        "Evidence",
        "Outcome",
        "ThreatModel",
        "Workers",
        "export",
        "fit",
        "load",
    ):
        things[f"alu.{name}"] = getattr(alu, name)
    for kind in (Defense, Exported):
        own = [name for name in vars(kind) if not name.startswith("_")]
        things |= {f"alu.{kind.__name__}.{name}": getattr(kind, name) for name in own}
    for kind in (alu.Client, alu.monitor.Martingale, alu.monitor.Monitor):
        members = {name: getattr(kind, name) for name in vars(kind) if not name.startswith("_")}
        things |= {f"{kind.__name__}.{name}": thing for name, thing in members.items()} | {kind.__name__: kind}
    return {name: thing for name, thing in things.items() if inspect.isclass(thing) or inspect.isfunction(thing)}


PUBLIC = public_names()
BY_NAME = {name.rpartition(".")[2]: thing for name, thing in PUBLIC.items()}
METHODS = [thing for name, thing in PUBLIC.items() if name.startswith(("alu.Defense.", "alu.Exported."))]
every = pytest.mark.parametrize("name", PUBLIC)


def sections(text: str) -> dict[str, str]:
    """The sections of a NumPy-style docstring by title; what comes before the first one has the title ""."""
    pieces = SECTION.split(inspect.cleandoc(text))
    return dict(zip(["", *pieces[1::2]], pieces[::2], strict=True))


def described(text: str) -> list[str]:
    """The names that a Parameters section describes."""
    heads = [line.partition(" : ")[0] for line in text.splitlines() if line and not line.startswith(" ")]
    return [name.strip() for head in heads for name in head.split(",")]


def parameters(thing: Callable[..., Any]) -> list[str]:
    """What a function or a constructor takes, with the stars of the ones that collect."""
    if inspect.isclass(thing):
        maker = next(base for base in thing.__mro__ if "__init__" in vars(base))
        if issubclass(thing, Enum) or not maker.__module__.startswith(("alu", __name__)):
            return []
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    taken = inspect.signature(thing).parameters.values()
    shared = SHARED if thing in METHODS else set()
    return [stars.get(one.kind, "") + one.name for one in taken if one.name not in {"self", *shared}]


def described_by(thing: Any) -> set[str]:
    """The parameters that a docstring describes, itself or by naming a public thing whose they are."""
    text = thing.__doc__ or ""
    names = set(described(sections(text).get("Parameters", "")))
    for other in set(re.findall(r"(?:(?:those|that) of|Parameters:) `(\w+)`", text)) - {thing.__name__}:
        names |= described_by(BY_NAME[other]) | {"**"} if other in BY_NAME else set()
    return names


def lacks(thing: Any) -> list[str]:
    """What is missing from a docstring, in words."""
    parts = sections(thing.__doc__ or "")
    missing = [] if parts[""].strip() else ["a sentence on what it is"]
    missing += [] if ">>> " in parts.get("Examples", "") else ["an example"]
    taken, known = parameters(thing), described_by(thing)
    # What is passed on with ** belongs to the class that the docstring names.
    missing += [f"a description of {one}" for one in taken if one not in known and not ("**" in known and "**" in one)]
    return missing + [f"no {one}" for one in described(parts.get("Parameters", "")) if one not in taken]


@every
def test_it_says_what_it_is_and_what_it_takes(name: str) -> None:
    assert lacks(PUBLIC[name]) == []


def test_a_defence_describes_what_its_methods_share() -> None:
    assert [name for name in SHARED if f"`{name}`" not in (Defense.__doc__ or "")] == []
    assert [name for name in SHARED - {"evidence"} if f"`{name}`" not in (Exported.__doc__ or "")] == []


def toy_function(size: int, **others: int) -> None:
    """Something.

    Parameters
    ----------
    sise
        How large.
    """


class ToyBase:
    """A base.

    Parameters
    ----------
    size
        How large.

    Examples
    --------
    >>> 1 + 1
    3
    """

    def __init__(self, size: int) -> None:
        self.size = size


class ToyChild(ToyBase):
    pass


def test_the_check_can_fail() -> None:
    assert lacks(toy_function) == ["an example", "a description of size", "a description of **others", "no sise"]
    assert lacks(ToyBase) == []
    assert lacks(ToyChild) == ["a sentence on what it is", "an example", "a description of size"]


@pytest.fixture(scope="module")
def namespace(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The names that examples use, made by the code that docs/api.rst shows."""
    page = (Path(__file__).parents[2] / "docs" / "api.rst").read_text()
    block = re.search(r"^\.\. code-block:: python\n\n(?P<code>(?: {3}.*\n|\n)+)", page, re.M)
    assert block is not None
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("examples")))
        exec(inspect.cleandoc(block["code"]), names)
    return names


def run_examples(text: str, namespace: dict[str, Any], name: str) -> tuple[int, str]:
    """How many lines the examples of a docstring have, and what went wrong with them."""
    test = doctest.DocTestParser().get_doctest(inspect.cleandoc(text), dict(namespace), name, None, 0)
    lines = sum(len((one.source + one.want).splitlines()) for one in test.examples)
    report: list[str] = []
    doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(test, out=report.append)
    return lines, "".join(report)


@every
@pytest.mark.filterwarnings("ignore:Harmless changes cost:alu.check.AluWarning")  # a fit on few images
def test_its_examples_run(name: str, namespace: dict[str, Any]) -> None:
    lines, report = run_examples(PUBLIC[name].__doc__ or "", namespace, name)
    assert report == ""
    assert 0 < lines <= LONGEST_EXAMPLE


def test_a_wrong_example_is_noticed(namespace: dict[str, Any]) -> None:
    lines, report = run_examples(ToyBase.__doc__ or "", namespace, "ToyBase")
    assert lines == 2
    assert "Expected:\n    3\nGot:\n    2" in report
