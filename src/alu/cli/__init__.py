"""The command `alu`. Nothing here imports torch until a command runs."""

from __future__ import annotations

import errno
import os
import re
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any, TextIO

import typer

from alu.cli.attack import attack
from alu.cli.certify import certify
from alu.cli.data import data
from alu.cli.demo import demo
from alu.cli.evaluate import evaluate, merge, report
from alu.cli.export import export
from alu.cli.fit import fit
from alu.cli.predict import predict
from alu.cli.reproduce import reproduce
from alu.cli.running import HELD, heed_sigterm
from alu.cli.serve import serve
from alu.cli.train import train
from alu.errors import AluError

app = typer.Typer(
    name="alu",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
WRONG_CALL: Any = typer.BadParameter.__base__
"""What typer raises for unknown options and missing words; it has no public name."""
COMMANDS: tuple[tuple[Callable[..., None], str], ...] = (
    (demo, "See it work, and fail, on bundled models and images."),
    (data, "What a data set holds and where it comes from."),
    (train, "Train a classifier, a VAE or a denoiser by a recipe."),
    (fit, "Build a defence around your own classifier."),
    (predict, "For each picture: label, flag, p-value."),
    (export, "Write a defence as ONNX graphs that need no torch."),
    (serve, "Answer pictures over HTTP, with limits, metrics and a monitor."),
    (attack, "Write adversarial images to files."),
    (evaluate, "Attack a defence or any model, and judge it."),
    (certify, "Prove how far the answers of a classifier hold under noise."),
    (report, "Make one page from results of evaluate."),
    (merge, "Join the shards of one evaluation."),
    (reproduce, "Measure the paper's tables and figures again."),
)
ADVICE = re.compile(
    r"\b(trust|force|fresh|root|size|steps|epochs|checkpoint|false_alarm|max_minutes)=(True\b|(?=[ .,;)]))(?P<value>)"
)
ADVISED_VALUE = re.compile(r'\b(purifier|reference|false_alarm|max_minutes)=("?)(?P<value>[\w.]*\w)\2')


for command, about in COMMANDS:
    app.command(short_help=about)(command)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"alu {version('alu')}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Test-time defence of image classifiers against adversarial attack, judged honestly.

    Exit codes: 0 done, 1 bad input or failed, 2 wrong usage, 3 done but something is missing or a check failed,
    130 interrupted by Ctrl-C or SIGTERM. ALU_DEBUG=1 shows where an error came from.
    """
    context.call_on_close(HELD.close)


def main() -> None:
    """Run the command; errors are one sentence on standard error and an exit code."""
    warnings.showwarning = _show_warning
    heed_sigterm()
    try:
        code = app(prog_name="alu", standalone_mode=False)
        if code == 130:  # typer has turned Ctrl-C into this code, without a word
            raise KeyboardInterrupt
        sys.stdout.flush()
        sys.exit(code)
    except AluError as error:
        _stop(str(error), error.exit_code, error)
    except WRONG_CALL as error:
        if len(sys.argv) == 1:  # `alu` alone shows the help
            error.show()
            sys.exit(error.exit_code)
        command = error.ctx.command_path if error.ctx else "alu"
        message = error.format_message()
        end = "" if message.endswith((".", "?")) else "."
        _stop(f"{message}{end} See: {command} --help", error.exit_code, error)
    except KeyboardInterrupt as error:
        _stop("Interrupted. No partial files were left.", 130, error)
    except BrokenPipeError:
        # The reader of a pipe went away; that is its right.
        _drop_output()
        sys.exit(0)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            # Files have their own sentence (alu.storage.explained), so this is standard output.
            _drop_output()
            _stop("Cannot write the output: the disk is full. Free some space and run the command again.", 1, error)
        # A bug of ours, said as one sentence too.
        _stop(f"alu failed unexpectedly ({type(error).__name__}: {error}). Set ALU_DEBUG=1 to see where.", 1, error)


def _drop_output() -> None:
    """Send what is still to be written nowhere: Python would try again at its end, and fail with its own words."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Ours as one line, without the place in the code; others as Python shows them."""
    if category.__name__ == "AluWarning":  # by name: its module would import torch
        sys.stderr.write(f"alu: warning: {as_options(str(message))}\n")
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))


def _stop(sentence: str, code: int, error: BaseException) -> None:
    if os.environ.get("ALU_DEBUG"):
        raise error
    if (type(error).__name__ == "DivergedError" or code == 130) and os.environ.get("RANK", "0") != "0":
        sys.exit(code)  # every process knows it, and one says it
    # Other people's errors that a sentence quotes may run over several lines.
    sys.stderr.write(f"alu: {as_options(' '.join(sentence.split()))}\n")
    sys.exit(code)


def as_options(sentence: str) -> str:
    """The library's advice in the command's words: trust=True becomes --trust, "give root= its path" --root, and
    max_minutes=30 --max-minutes 30."""
    for pattern in (ADVICE, ADVISED_VALUE):
        sentence = pattern.sub(_as_option, sentence)
    return sentence


def _as_option(advice: re.Match[str]) -> str:
    return f"--{advice[1].replace('_', '-')} {advice['value'] or ''}".rstrip()
