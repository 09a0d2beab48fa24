"""The command `alu`. Nothing here imports torch until a command runs."""

from __future__ import annotations

import os
import sys

import typer

from alu.cli.data import data
from alu.cli.demo import demo
from alu.cli.fit import fit
from alu.cli.predict import predict
from alu.errors import AluError

app = typer.Typer(
    name="alu",
    help="Test-time defence of image classifiers against adversarial attack, judged honestly.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (demo, data, fit, predict):
    app.command()(command)


@app.callback()
def root() -> None:
    """Test-time defence of image classifiers against adversarial attack, judged honestly."""


def main() -> None:
    """Run the command; errors are one sentence on standard error and an exit code."""
    try:
        app()
    except AluError as error:
        _stop(str(error), error.exit_code, error)
    except KeyboardInterrupt as error:
        _stop("Interrupted. Nothing was written half.", 130, error)
    except BrokenPipeError:
        # The reader of a pipe went away; that is its right.
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:  # a bug of ours, said as one sentence too
        _stop(f"alu failed unexpectedly ({type(error).__name__}: {error}). Set ALU_DEBUG=1 to see where.", 1, error)


def _stop(sentence: str, code: int, error: BaseException) -> None:
    if os.environ.get("ALU_DEBUG"):
        raise error
    sys.stderr.write(f"alu: {sentence}\n")
    sys.exit(code)
