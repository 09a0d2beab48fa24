"""Ctrl-C and SIGTERM during a training: a checkpoint first, and no bit is lost."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from alu.training.checkpoint import progress_of
from alu.training.interrupts import deferred
from alu.training.loop import Run, train
from tests.toys import small_run


@pytest.fixture(autouse=True)
def _listening() -> Iterator[None]:
    # A test run in the background would hand down that SIGINT is ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def run_of(folder: Path) -> Run:
    run = small_run(folder, optimizer="adam", lr=1e-3)
    run.every = 1000.0  # no checkpoint in an epoch but the one that the signal asks for
    return run


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("step", [1, 5, 6, 8, 17])  # of 6 in an epoch; the step after the signal is done as well
def test_interrupted_and_resumed_is_the_same_to_the_bit(tmp_path: Path, step: int, number: signal.Signals) -> None:
    whole = run_of(tmp_path / "whole")
    figures = train(whole)

    def interrupt(done: int, total: int, _: dict[str, float]) -> None:
        if done == step:
            os.kill(os.getpid(), number)

    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(KeyboardInterrupt):
        train(run_of(tmp_path / "cut"), interrupt)
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers
    at = progress_of(tmp_path / "cut" / "checkpoint.safetensors")
    assert at.step == step + (step % 6 != 0), "the step that was being done, or the epoch that ended"
    assert at.unmeasured == (step in {5, 17}), "the epoch's last step is saved before it is measured"
    resumed = run_of(tmp_path / "cut")
    assert train(resumed) == figures
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[name]), name
    curves = [(tmp_path / run / "curve.jsonl").read_text().splitlines() for run in ("whole", "cut")]
    assert [json.loads(row) for row in curves[0]] == [json.loads(row) for row in curves[1]]


def test_the_second_signal_interrupts_at_once(tmp_path: Path) -> None:
    seen = []

    def interrupt(done: int, total: int, _: dict[str, float]) -> None:
        seen.append(done)
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        seen.append(-done)

    with pytest.raises(KeyboardInterrupt):
        train(run_of(tmp_path), interrupt)
    assert seen == [1], "not even the end of this function was reached"
    assert not (tmp_path / "checkpoint.safetensors").exists()


def test_several_processes_take_the_second_signal_of_one_ctrl_c_for_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with deferred() as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        assert interruption.since is not None
        interruption.since -= 6
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)


def test_what_ignores_ctrl_c_goes_on_ignoring_it() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with deferred() as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        assert not interruption.requested
        os.kill(os.getpid(), signal.SIGTERM)
        assert interruption.requested
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_training_outside_the_main_thread_sets_no_handlers(tmp_path: Path) -> None:
    done: list[dict[str, float]] = []
    thread = threading.Thread(target=lambda: done.append(train(run_of(tmp_path))))
    thread.start()
    thread.join()
    assert done
