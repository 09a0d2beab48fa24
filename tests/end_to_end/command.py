"""The command `alu`, run as a user runs it: in a process of its own, in a folder of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

SERVER = """
import gc, json, os, sys
import torch, alu.defense, alu.data, alu.fitting, rich.table, rich.console, rich.progress
from alu.cli import main

gc.freeze()
for line in sys.stdin:
    call = json.loads(line)
    child = os.fork()
    if child == 0:
        os.chdir(call["folder"])
        os.environ.update(call["environment"])
        for number, path in ((1, call["out"]), (2, call["err"])):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.argv = ["alu", *call["words"]]
        try:
            main()
        except SystemExit as stop:
            sys.stdout.flush()
            os._exit(stop.code or 0)  # taking the interpreter down in order costs half a second
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", "PYTHONWARNINGS": "default"}


@dataclass(frozen=True)
class Done:
    """What came of a command."""

    code: int
    out: str
    err: str

    @property
    def unwarned(self) -> str:
        """Standard error without its warnings: a defence of a few pictures is weak, and alu fit says so."""
        return "".join(line for line in self.err.splitlines(True) if not line.startswith("alu: warning: "))

    def sentence(self) -> str:
        """The one sentence of a failed command; anything else on standard error is a failure of the test."""
        assert self.code not in (0, -11), self
        assert "Traceback" not in self.err, self.err
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("alu: "), lines
        assert "unexpectedly" not in lines[0], lines
        return lines[0]


def start(folder: Path, *words: object, **more: object) -> subprocess.Popen[str]:
    """The command as a fresh process, still running."""
    command = [Path(sys.executable).with_name("alu"), *map(str, words)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe, text=True, env=ENVIRONMENT, **more)  # type: ignore[call-overload, no-any-return]


def fresh(folder: Path, *words: object, **more: object) -> Done:
    """The command in a fresh process."""
    process = start(folder, *words, **more)
    out, err = process.communicate(timeout=120)
    return Done(process.returncode, out, err)


def alu(folder: Path, *words: object, **environment: str) -> Done:
    """The command in a process forked from one that has already imported torch, which saves two seconds a call."""
    server, place = _server()
    call = {
        "folder": str(folder),
        "words": [str(word) for word in words],
        "environment": environment,
        "out": f"{place}/out",
        "err": f"{place}/err",
    }
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(call) + "\n")
    server.stdin.flush()
    code = int(server.stdout.readline())
    return Done(code, (Path(place) / "out").read_text(), (Path(place) / "err").read_text())


@cache
def _server() -> tuple[subprocess.Popen[str], str]:
    import atexit
    import tempfile

    folder = tempfile.TemporaryDirectory()
    pipe = subprocess.PIPE
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=pipe, stdout=pipe, text=True, env=ENVIRONMENT, cwd=folder.name
    )

    def stop() -> None:
        server.communicate()
        folder.cleanup()

    atexit.register(stop)
    return server, folder.name


@contextmanager
def disk_of(size: str, folder: Path) -> Iterator[Path]:
    """A real file system of this size (such as "64k"), so that a full disk is a full disk."""
    disk = folder / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    words = [str(mount), "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]
    if mount is None or subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip(f"needs to mount a tmpfs of {size}, which this user may not or this system cannot do")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Names, sizes and times of everything in a folder; a folder itself has neither size nor time here."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if "__pycache__" not in path.parts:
            facts = path.stat()
            found[str(path.relative_to(folder))] = (0, 0) if path.is_dir() else (facts.st_size, facts.st_mtime_ns)
    return found
