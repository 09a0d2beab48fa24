"""A request's way: given up in time, not spoiled by others, noted before it is answered; and real defences."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from alu.decoding import Pixels
from alu.errors import StorageError
from alu.monitor import Monitor
from alu.serve.audit import AuditLog
from alu.serve.limits import Limits
from alu.serve.records import Records
from alu.serve.service import Settings
from tests.serving import Brightness, multipart, picture, running, wait_for


def test_a_request_that_takes_too_long_is_given_up_and_leaves_no_room_behind() -> None:
    hold = threading.Event()
    engine = Brightness()
    with running(lambda: engine, Settings(Limits(seconds=0.2))) as service:
        engine.before = lambda pixels: hold.wait(20)
        reply = service.decide(picture())
        assert (reply.status, reply.cause) == (503, "timeout")
        assert reply.headers["retry-after"] == "5"
        assert (service.service.batcher.admitted, service.service.intake.held) == (0, 0)
        hold.set()
        wait_for(lambda: service.decide(picture()).status == 200)


def test_an_engine_that_fails_is_told_to_its_own_request_only(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(pixels: Pixels) -> None:
        if (pixels[:, 0] == 77).any():
            raise RuntimeError("seventy-seven")

    engine = Brightness()
    with running(lambda: engine) as service:
        engine.before = fail
        gate = threading.Barrier(2)
        replies = {}

        def ask(name: str, colour: int) -> None:
            gate.wait(10)
            replies[name] = service.decide(picture(red=colour), **{"X-Request-ID": name})

        threads = [threading.Thread(target=ask, args=pair) for pair in (("good", 7), ("bad", 77))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (replies["good"].status, replies["bad"].status, replies["bad"].cause) == (200, 500, "failed")
    assert "seventy-seven" not in replies["bad"].body.decode()
    assert "alu: request bad failed (RuntimeError: seventy-seven).\n" in capsys.readouterr().err


def test_decisions_do_not_depend_on_what_they_were_batched_with() -> None:
    engine = Brightness()
    with running(lambda: engine) as service:
        alone = {colour: service.decide(picture(red=colour)).json["pictures"] for colour in range(0, 250, 5)}
        engine.before = lambda pixels: threading.Event().wait(0.01)
        engine.asked.clear()
        found = {}
        threads = [
            threading.Thread(target=lambda colour=colour: found.update({colour: service.decide(picture(red=colour))}))
            for colour in alone
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert max(engine.asked) > 1, "or nothing was batched"
    assert {colour: reply.json["pictures"] for colour, reply in found.items()} == alone


def test_every_decision_is_in_the_audit_log_without_its_pixels(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with running(Brightness, records=Records(audit=AuditLog(path))) as service:
        body, kind = multipart({"a.png": picture(red=5), "secret name.png": picture(255, 255, 255)})
        answers = service.decide(body, kind, **{"X-Request-ID": "first"}).json["pictures"]
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        service.decide(b"bad")
    assert [(line["request"], line["picture"]) for line in lines] == [("first", 0), ("first", 1)]
    for line, answer in zip(lines, answers, strict=True):
        assert {name: line[name] for name in answer if name != "name"} == {
            n: v for n, v in answer.items() if n != "name"
        }
        assert set(line) == {*answer, "time", "request", "picture", "sha256", "model", "calibration"} - {"name"}
    assert lines[0]["sha256"] == hashlib.sha256(picture(red=5)).hexdigest()
    assert len(path.read_text().splitlines()) == 2, "what was refused is no decision"


def test_what_cannot_be_logged_is_not_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alu.serve.records.KEPT_EVERY", 0.5)
    monkeypatch.setattr("alu.serve.records.SYNCED_EVERY", 0.1)
    log = AuditLog(tmp_path / "audit.jsonl")
    broken = True
    write = log.write

    def failing(rows: object) -> None:
        if broken:
            raise StorageError("Cannot write audit.jsonl: the disk is full.")
        write(rows)  # type: ignore[arg-type]

    monkeypatch.setattr(log, "write", failing)
    with running(Brightness, records=Records(audit=log)) as service:
        reply = service.decide(picture())
        assert (reply.status, reply.cause) == (503, "audit")
        assert service.ask("GET", "/v1/monitor").json["pictures"] == 0
        assert service.ask("GET", "/readyz").cause == "audit"
        broken = False
        wait_for(lambda: service.decide(picture()).status == 200)
        assert service.ask("GET", "/readyz").status == 200
    assert len((tmp_path / "audit.jsonl").read_text().splitlines()) >= 1


def test_pictures_are_scaled_if_the_service_was_told_to() -> None:
    with running(Brightness, Settings(resize=True)) as service:
        assert service.decide(picture(green=9, size=(40, 20))).json["pictures"][0]["class"] == "green"
    with running(Brightness) as service:
        reply = service.decide(picture(green=9, size=(40, 20)))
        assert reply.json["detail"] == (
            "Picture 0 is 40 x 20 pixels; this defence reads 8 x 8. Scale it, or start the service with --resize."
        )


def test_too_many_pixels_are_refused_by_the_header_alone() -> None:
    with running(Brightness, Settings(Limits(pixels=100), resize=True)) as service:
        cut = picture(size=(11, 10))[:60]  # enough for the size, and for nothing else
        reply = service.decide(cut)
        assert (reply.cause, "more than 100 are not decoded" in reply.json["detail"]) == ("bad-picture", True)


def test_purified_pictures_that_are_none_are_refused() -> None:
    engine = Brightness()
    with running(lambda: engine) as service:
        engine.can_purify = False
        assert service.decide(picture(), query="?purified=true").cause == "bad-request"
        assert service.decide(picture()).status == 200


def test_while_it_loads_it_lives_and_is_not_ready() -> None:
    hold = threading.Event()

    def load() -> Brightness:
        hold.wait(20)
        return Brightness()

    with running(load, ready=False) as service:
        replies = [service.ask("GET", "/readyz"), service.decide(picture()), service.ask("GET", "/v1/model")]
        for reply in replies:
            assert (reply.status, reply.cause, reply.headers["retry-after"]) == (503, "loading", "2")
        assert service.ask("GET", "/healthz").status == service.ask("GET", "/docs").status == 200
        assert "alu_ready 0.0" in service.ask("GET", "/metrics").body.decode()
        hold.set()
        wait_for(lambda: service.ask("GET", "/readyz").status == 200)
        assert service.decide(picture()).status == 200


def test_a_service_around_another_engine_needs_no_torch() -> None:
    code = (
        "import sys\nfrom tests.serving import Brightness, picture, running\n"
        "with running(Brightness) as service:\n    assert service.decide(picture()).status == 200\n"
        "    assert service.ask('GET', '/docs').status == 200\nprint('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_the_monitor_is_fed_in_the_order_of_the_answers() -> None:
    with running(Brightness) as service:
        for colour in range(0, 200, 10):
            service.decide(picture(red=colour))
        wait_for(lambda: service.ask("GET", "/v1/monitor").json["pictures"] == 20)
        found = service.ask("GET", "/v1/monitor").json
    alone = Monitor(np.linspace(0.0, 0.5, 99))
    seen = alone.update([np.float32(colour) / np.float32(255) / 3 for colour in range(0, 200, 10)])
    assert found["recent"]["log10_evidence"] == pytest.approx(seen.log10_evidence.tolist(), abs=1e-3)
