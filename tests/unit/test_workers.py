"""Pieces of work in this process and in others: the same comes of them, also when a worker is lost."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from socket import create_server

import pytest

import alu
from alu.check import AluWarning
from alu.errors import AluError, MissingExtraError, UsageError, WorkersError
from alu.workers import Kept, Pool, ThisProcess, Workers, on_ray, pool_of, remote
from tests import working


def test_a_number_of_workers_a_pool_or_nothing() -> None:
    mine = ThisProcess()
    with pool_of(mine) as pool:
        assert pool is mine
    with pool_of(None) as pool:
        assert not pool.apart
    with pool_of(3) as pool:
        assert isinstance(pool, alu.Workers)
        assert pool.count == 3


def test_the_same_comes_of_pieces_wherever_they_run(workers: Workers) -> None:
    here = dict(ThisProcess().run(working.squared, 10, range(6)))
    heard: list[tuple[int, str, int, int]] = []
    apart = dict(workers.run(working.squared, 10, range(6), heard=lambda *words: heard.append(words)))
    assert [value for value, _, _ in here.values()] == [10, 11, 14, 19, 26, 35]
    assert {number: value for number, (value, _, _) in apart.items()} == {n: v[0] for n, v in here.items()}
    assert sorted(heard) == [(number, "squaring", 1, 1) for number in range(6)]
    processes = {process for _, process, _ in apart.values()}
    assert here[0][1] not in processes
    assert len(processes) == 2
    assert {threads for _, _, threads in apart.values()} == {1}


def test_pieces_come_as_they_are_done_or_in_their_order(workers: Workers) -> None:
    def order(in_order: bool) -> list[int]:
        return [number for number, _ in workers.run(working.squared, 0, range(6), in_order=in_order)]

    assert order(False)[0] != 0, "the first takes longest"
    assert order(True) == [0, 1, 2, 3, 4, 5]


def test_pieces_are_asked_for_as_they_are_needed(workers: Workers) -> None:
    asked: list[int] = []
    run = workers.run(working.number, None, (asked.append(piece) or piece for piece in range(50)))  # type: ignore[func-returns-value]
    assert not asked
    next(run)
    assert 0 < len(asked) < 20
    run.close()


def test_a_lost_worker_costs_what_was_not_reported(workers: Workers, tmp_path: Path) -> None:
    def kept(piece: int) -> Kept:
        return Kept(tmp_path / str(piece))

    found = dict(workers.run(working.in_two_parts, "end", [7], kept=kept))
    assert found == {0: "piece 7"}
    assert (tmp_path / "7" / "inside" / "first.txt").read_text() == "piece 7"
    assert (tmp_path / "7" / "second.txt").read_text() == "end"


def test_a_piece_that_ends_every_worker_is_given_up(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_ray, "TRIES", 1)  # a new worker takes seconds to start
    with pytest.raises(WorkersError, match=r"A worker was lost 1 times with the same piece of work\. Memory may be"):
        list(workers.run(working.dying, None, [1]))


def test_errors_and_warnings_of_a_worker_are_those_of_this_process(workers: Workers) -> None:
    with pytest.raises(ValueError, match="a cause") as raised:
        list(workers.run(working.failing, "a cause", [1]))
    assert "working.py" in raised.value.__notes__[0], "where it happened"
    with pytest.raises(AluError, match="Somebody needs the package something"):  # an error that cannot be copied
        list(workers.run(working.failing, "extra", [1]))
    with pytest.warns(AluWarning, match="not so good"):
        list(workers.run(working.warning, "not so good", [1]))


def test_what_cannot_be_sent_is_refused(workers: Workers) -> None:
    with pytest.raises(WorkersError, match=r"This cannot be sent to other processes \(.*lock.*\)\. Leave out workers="):
        next(workers.run(working.number, threading.Lock(), [1]))


def test_a_worker_with_other_code_is_refused(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    other = {**remote.code(), "the code of alu": "another"}
    monkeypatch.setattr(remote, "code", lambda: other)
    with pytest.raises(
        WorkersError, match=r"is not like this process: the code of alu is \w{12}, not another\. Install"
    ):
        next(workers.run(working.number, None, [1]))


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2"])
def test_a_wrong_number_of_workers_is_refused(count: object) -> None:
    with pytest.raises(UsageError, match="workers is a number of processes, at least 1; it was given "):
        Workers(count)  # type: ignore[arg-type]


@pytest.mark.parametrize("address", ["", "here", "ray://host:1", "host", "host:port", "host:1234567"])
def test_an_address_is_auto_or_a_host_with_a_port(address: str) -> None:
    with pytest.raises(UsageError, match='is "auto" or HOST:PORT, such as'):
        Workers(address=address)


def test_an_address_where_nothing_answers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(WorkersError, match=rf"There is no Ray cluster at {address} \(Connection refused\)\. Start one"):
        Workers(address=address).start()


def test_an_address_where_something_else_answers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            link, _ = server.accept()
            with link:
                link.recv(100)
                link.sendall(b"HTTP/1.0 400 Bad request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(WorkersError, match=r"no Ray cluster at .* \(something else answers there\)"):
            Workers(address=address).start()
        thread.join()


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"needs the package ray, which is not installed.*\[ray\]'"):
        Workers(2)


def test_only_this_process_computes_elsewhere_than_on_the_processor() -> None:
    pool: Pool = ThisProcess()
    pool.refuse_device("cuda")
    Workers(2).refuse_device("cpu")
    with pytest.raises(UsageError, match="Workers compute on the processor, and this work is on cuda:1"):
        Workers(2).refuse_device("cuda:1")
