"""The commands and flags are a promise: a change here is a change for users. And what all commands share."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.progress import Progress
from typer.main import get_command
from typer.testing import CliRunner

import alu.data
from alu.cli import app, as_options
from alu.cli.running import MOST_BARS, _make_room

PROMISED = {
    "attack": [
        "--attack", "--data", "--device", "--eps", "--help", "--lattice", "--n", "--norm", "--out", "--root", "--seed",
        "--set", "--size", "--trust", "subject",
    ],
    "certify": [
        "--address", "--alpha", "--data", "--denoiser", "--device", "--engine", "--first", "--help", "--n", "--out",
        "--radius", "--root", "--samples", "--seed", "--sigma", "--size", "--workers", "classifier",
    ],
    "data": ["--help", "--root", "--show", "--size", "--split", "name"],
    "demo": ["--device", "--help", "--n", "--out", "--seed"],
    "evaluate": [
        "--address", "--budget", "--data", "--device", "--engine", "--eps", "--help", "--n", "--norm", "--out",
        "--root", "--seed", "--shard", "--size", "--strict", "--suite", "--trust", "--workers", "subject",
    ],
    "export": ["--classifier", "--data", "--help", "--out", "--root", "--size", "--trust", "defense"],
    "fit": [
        "--address", "--checkpoint", "--classifier", "--data", "--detector", "--device", "--engine", "--epochs",
        "--false-alarm", "--force", "--help", "--max-minutes", "--out", "--purifier", "--reference", "--root", "--rule",
        "--seed", "--size", "--solver", "--steps", "--suspicious", "--workers",
    ],
    "merge": ["--help", "--out", "shards"],
    "predict": [
        "--address", "--batch-size", "--classifier", "--device", "--engine", "--format", "--help", "--out", "--resize",
        "--trust", "--workers", "defense", "pictures",
    ],
    "report": ["--help", "--out", "results"],
    "reproduce": [
        "--address", "--device", "--engine", "--fresh", "--help", "--only", "--out", "--quick", "--root", "--seed",
        "--workers", "name",
    ],
    "serve": [
        "--alarm", "--audit", "--audit-keep", "--audit-megabytes", "--batch-size", "--classifier", "--device", "--help",
        "--host", "--key-file", "--max-megabytes", "--max-pictures", "--max-pixels", "--patience", "--playground",
        "--port", "--queue", "--resize", "--state", "--timeout", "--trust", "defense",
    ],
    "train": [
        "--data", "--device", "--every", "--help", "--list", "--out", "--root", "--set", "--size", "--start", "name",
    ],
}  # fmt: skip


def test_commands_and_flags_are_pinned() -> None:
    group = get_command(app)
    found = {}
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        words = ["--help"]
        for parameter in command.params:
            words += [parameter.name] if parameter.param_type_name == "argument" else parameter.opts
        found[name] = sorted(set(words))
    assert found == PROMISED


def test_help_says_the_exit_codes() -> None:
    text = " ".join((get_command(app).help or "").split())
    assert "0 done, 1 bad input or failed, 2 wrong usage, 3 done but something is missing" in text
    assert "130 interrupted by Ctrl-C or SIGTERM" in text


def test_every_command_says_what_it_does() -> None:
    group = get_command(app)
    for command in group.commands.values():  # type: ignore[attr-defined]
        assert command.help
        for parameter in command.params:
            assert parameter.help or parameter.name == "help", f"{command.name} {parameter.name}"


@pytest.mark.parametrize(
    ("library", "command"),
    [
        ("Pass trust=True if the code is yours.", "Pass --trust if the code is yours."),
        ("Give root= its path, or size= to scale.", "Give --root its path, or --size to scale."),
        ("Choose one of them with root=.", "Choose one of them with --root."),
        ("size=5000: expected from 1 to 4096.", "size=5000: expected from 1 to 4096."),
        ("Allow more: false_alarm=0.02.", "Allow more: --false-alarm 0.02."),
        ("max_minutes=7.5, (size=) or epochs=; x", "--max-minutes 7.5, (--size) or --epochs; x"),
        ('try purifier="vae", it', "try --purifier vae, it"),
        ("such as --set epochs=3.", "such as --set epochs=3."),
        ("PGD(targeted=True) and its_size= x", "PGD(targeted=True) and its_size= x"),
    ],
)
def test_advice_of_the_library_is_given_in_options(library: str, command: str) -> None:
    assert as_options(library) == command


def test_the_library_that_reads_data_does_not_speak_of_options() -> None:
    options = {word for words in PROMISED.values() for word in words if word.startswith("--")}
    for path in Path(alu.data.__file__).parent.glob("*.py"):
        assert not options & set(re.findall(r"--[a-z-]+", path.read_text())), path.name


def test_done_bars_make_room_and_others_stay() -> None:
    bar = Progress()
    tasks = {"still going": bar.add_task("still going", total=10)}
    for number in range(40):
        _make_room(bar, tasks)
        tasks[str(number)] = bar.add_task(str(number), total=1)
        bar.update(tasks[str(number)], completed=1)
    assert len(bar.tasks) <= MOST_BARS
    assert "still going" in tasks
    assert "39" in tasks


def test_the_help_of_attack_names_every_attack() -> None:
    from alu.attacks.catalog import ATTACKS

    words = re.findall(r"[a-z0-9-]+", CliRunner().invoke(app, ["attack", "--help"], env={"COLUMNS": "400"}).output)
    assert set(ATTACKS) <= set(words)
