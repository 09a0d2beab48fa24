"""alu serve as a process: the same answers as alu predict, under load, signals, kill -9, and everything malformed."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import alu
from alu.data.pictures import as_picture
from tests.end_to_end.command import ENVIRONMENT, fresh, snapshot
from tests.malformed import malformed, status_of
from tests.serving import Reply, ask, wait_for

Process = subprocess.Popen[bytes]
KEY = "a-key-of-sixteen-letters"


@contextmanager
def serving(folder: Path, defense: Path, *options: object, **environment: str) -> Iterator[tuple[Process, int]]:
    """The command, from the time that it is ready; what it says is in the file `said`. It is ended afterwards."""
    command = [Path(sys.executable).with_name("alu"), "serve", defense, "--port", 0, *options]
    said = folder / "said"
    with said.open("wb") as errors:
        process = subprocess.Popen(
            list(map(str, command)), cwd=folder, stdout=errors, stderr=errors, env={**ENVIRONMENT, **environment}
        )
    try:
        wait_for(lambda: process.poll() is not None or b"listening on" in said.read_bytes(), 90)
        found = re.search(r"listening on http://[\w.:\[\]]+:(\d+)", said.read_text())
        assert found, said.read_text()
        yield process, int(found[1])
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def png(pixels: torch.Tensor) -> bytes:
    file = io.BytesIO()
    as_picture(pixels.float() / 255).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("serve")


@pytest.fixture(scope="module")
def scaling(place: Path, saved_pca: Path) -> Iterator[tuple[Process, int]]:
    """One service for the tests that do not end it; it scales pictures, so that those of any size are decoded."""
    (place / "temporary").mkdir()
    with serving(place, saved_pca, "--resize", "--max-pixels", 1_000_000, TMPDIR=str(place / "temporary")) as found:
        yield found


def post(port: int, body: bytes, number: str = "x", key: str | None = None) -> Reply:
    headers = {"Content-Type": "image/png", "X-Request-ID": number}
    return ask(port, "POST", "/v1/decide", body, headers | ({"Authorization": f"Bearer {key}"} if key else {}))


def at_once(work: Callable[[int], object], count: int, threads: int = 8) -> None:
    """Do the work for every number, several at a time."""
    numbers = iter(range(count))
    lock = threading.Lock()
    failures: list[BaseException] = []

    def loop() -> None:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            try:
                work(number)
            except BaseException as failure:
                failures.append(failure)
                raise

    running = [threading.Thread(target=loop) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not failures


def test_decisions_are_those_of_decide_whatever_they_are_batched_with(
    scaling: tuple[Process, int], saved_pca: Path
) -> None:
    _, port = scaling
    pixels = alu.data.sample("test").draw(200).pixels
    answers: dict[int, dict[str, object]] = {}
    at_once(lambda number: answers.update({number: post(port, png(pixels[number])).json["pictures"][0]}), 200, 16)
    decision = alu.Defense.load(saved_pca).decide(alu.data.as_images(pixels)).to_dict()
    for number in range(200):
        for name in ("label", "accepted", "flagged", "state"):
            assert answers[number][name] == decision[name][number], (number, name)
        assert answers[number]["score"] == pytest.approx(decision["score"][number], rel=1e-4)
        assert answers[number]["p_value"] == pytest.approx(decision["p_value"][number], abs=1.01 / 1501)
    text = ask(port, "GET", "/metrics").body.decode()
    batches, pictures = (float(re.search(rf"alu_batch_pictures_{name} (\S+)", text)[1]) for name in ("count", "sum"))  # type: ignore[index]
    assert pictures / batches > 1.5, "or they were not batched"


def test_pictures_of_every_kind_are_read_as_alu_predict_reads_them(
    scaling: tuple[Process, int], saved_pca: Path, tmp_path: Path
) -> None:
    _, port = scaling
    upright = as_picture(alu.data.sample("test").images[3]).resize((48, 40))
    exif = Image.Exif()
    exif[0x0112] = 6
    folder = tmp_path / "pictures"
    folder.mkdir()
    upright.save(folder / "a.jpg", quality=60)
    upright.save(folder / "turned.jpg", exif=exif)
    upright.convert("P", palette=Image.Palette.ADAPTIVE, colors=17).save(folder / "palette.png")
    upright.convert("CMYK").save(folder / "cmyk.jpg")
    upright.convert("L").save(folder / "gray.png")
    upright.convert("RGBA").save(folder / "clear.webp", lossless=True)
    wide = np.asarray(upright.convert("L")).astype(np.uint16) * 257 + 3
    Image.fromarray(wide).save(folder / "wide.png")
    Image.fromarray(wide).save(folder / "wide.tif")
    told = fresh(tmp_path, "predict", saved_pca, folder, "--resize", "--format", "jsonl")
    rows = [json.loads(line) for line in told.out.splitlines()]
    assert len(rows) == 8
    for row in rows:
        (answer,) = post(port, Path(row["file"]).read_bytes()).json["pictures"]
        for name in ("label", "class", "accepted", "flagged", "state"):
            assert answer[name] == row[name], row["file"]
        assert answer["score"] == pytest.approx(row["score"], rel=1e-4)
    scores = {round(row["score"], 3) for row in rows}
    assert len(scores) > 4, "they differ, or the test shows little"


def test_malformed_requests_leave_it_serving_without_a_500_or_a_file(scaling: tuple[Process, int], place: Path) -> None:
    process, port = scaling
    hammer(process, port, place, range(400))


def hammer(process: Process, port: int, place: Path, numbers: range) -> None:
    """Send malformed requests; then see that nothing is broken."""
    before = snapshot(place)
    seen: Counter[tuple[str, int]] = Counter()

    def send(at: int) -> None:
        what, content = malformed(numbers[at])
        status = status_of(port, content)
        seen[what, status] += 1
        assert status in (0, 200, 400, 401, 403, 404, 405, 408, 413, 415, 422, 431, 503), (numbers[at], what, status)

    at_once(send, len(numbers))
    after = snapshot(place)
    assert {name: facts for name, facts in after.items() if name != "said"} == {
        n: f for n, f in before.items() if n != "said"
    }
    assert "failed" not in (place / "said").read_text()
    assert "Traceback" not in (place / "said").read_text()
    assert process.poll() is None
    assert post(port, png(alu.data.sample("test").pixels[0])).status == 200
    wait_for(lambda: "\nalu_queue_pictures 0.0" in ask(port, "GET", "/metrics").body.decode())
    causes = set(re.findall(r'alu_refusals_total\{cause="([\w-]+)"\}', ask(port, "GET", "/metrics").body.decode()))
    expected = {"bad-picture", "bad-request", "bad-http", "long-header", "unknown-type", "wrong-method", "too-large"}
    assert expected <= causes, f"too little was tried: {causes}"


def sending(
    port: int, body: bytes, stop: threading.Event, done: dict[str, int], threads: int = 8
) -> list[threading.Thread]:
    """Threads that ask until told to stop, each request with its own number; `done` has the status of each answer."""

    def loop(thread: int) -> None:
        for number in range(10**6):
            if stop.is_set():
                return
            name = f"{thread}-{number}"
            with suppress(OSError, Exception):  # a connection that is refused or cut is no answer
                done[name] = post(port, body, name).status

    found = [threading.Thread(target=loop, args=(thread,)) for thread in range(threads)]
    for thread in found:
        thread.start()
    return found


def lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_under_load_ends_it_in_order(tmp_path: Path, saved_pca: Path, number: signal.Signals) -> None:
    body = png(alu.data.sample("test").pixels[0])
    with serving(tmp_path, saved_pca, "--audit", "audit.jsonl", "--state", "state.json") as (process, port):
        done: dict[str, int] = {}
        stop = threading.Event()
        threads = sending(port, body, stop, done)
        wait_for(lambda: len(done) > 30)
        process.send_signal(number)
        code = process.wait(30)
        stop.set()
        for thread in threads:
            thread.join()
    assert code == 0, (tmp_path / "said").read_text()
    answered = {name for name, status in done.items() if status == 200}
    logged = [line["request"] for line in lines_of(tmp_path / "audit.jsonl")]
    assert set(logged) == answered, "what was accepted was answered, and the other way round"
    assert len(logged) == len(answered)
    assert set(done.values()) <= {200, 503}
    state = json.loads((tmp_path / "state.json").read_text())
    assert state["pictures"] == len(answered)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["audit.jsonl", "said", "state.json"], "no lock is left"


def test_after_kill_9_log_and_state_are_whole_and_it_goes_on(tmp_path: Path, saved_pca: Path) -> None:
    body = png(alu.data.sample("test").pixels[0])
    options = ("--audit", "audit.jsonl", "--state", "state.json")
    with serving(tmp_path, saved_pca, *options) as (process, port):
        done: dict[str, int] = {}
        stop = threading.Event()
        threads = sending(port, body, stop, done)
        wait_for(lambda: (tmp_path / "state.json").exists() and len(done) > 30)
        assert ask(port, "POST", "/v1/monitor/reset").status == 200, "also while it writes"
        process.kill()
        process.wait()
        stop.set()
        for thread in threads:
            thread.join()
    answered = {name for name, status in done.items() if status == 200}
    assert answered <= {str(line["request"]) for line in lines_of(tmp_path / "audit.jsonl")}
    kept = json.loads((tmp_path / "state.json").read_text())["pictures"]
    before = len(lines_of(tmp_path / "audit.jsonl"))
    with (tmp_path / "audit.jsonl").open("ab") as file:
        file.write(b'{"time": "2026-')  # as after a power cut
    with serving(tmp_path, saved_pca, *options) as (process, port):
        assert "the last line of audit.jsonl was torn" in (tmp_path / "said").read_text()
        assert ask(port, "GET", "/v1/monitor").json["pictures"] == kept > 0
        assert post(port, body).status == 200
        assert len(lines_of(tmp_path / "audit.jsonl")) == before + 1
        process.terminate()
        assert process.wait(30) == 0
    assert json.loads((tmp_path / "state.json").read_text())["pictures"] == kept + 1


def test_overload_is_answered_at_once_and_nothing_is_lost(tmp_path: Path, saved_pca: Path) -> None:
    body = png(alu.data.sample("test").pixels[0])
    with serving(tmp_path, saved_pca, "--queue", 2) as (_, port):
        replies: dict[int, tuple[int, float, Reply]] = {}

        def send(number: int) -> None:
            start = time.monotonic()
            reply = post(port, body)
            replies[number] = (reply.status, time.monotonic() - start, reply)

        at_once(send, 200, 16)
    statuses = Counter(status for status, _, _ in replies.values())
    assert len(replies) == 200
    assert set(statuses) == {200, 503}, statuses
    refused = [reply for status, _, reply in replies.values() if status == 503]
    assert all(reply.cause == "queue-full" and int(reply.headers["retry-after"]) >= 1 for reply in refused)
    assert max(seconds for _, seconds, _ in replies.values()) < 5


def test_a_key_from_a_file_or_the_environment(tmp_path: Path, saved_pca: Path) -> None:
    body = png(alu.data.sample("test").pixels[0])
    (tmp_path / "key").write_text(KEY + "\n")
    (tmp_path / "key").chmod(0o644)
    with serving(tmp_path, saved_pca, "--key-file", "key", "--host", "0.0.0.0") as (process, port):
        assert "others may read key. Run: chmod 600 key" in (tmp_path / "said").read_text()
        assert [post(port, body, key=key).status for key in (None, "wrong", KEY)] == [401, 401, 200]
        assert KEY not in Path(f"/proc/{process.pid}/cmdline").read_text() if Path("/proc").exists() else True
    with serving(tmp_path, saved_pca, ALU_KEY=KEY) as (_, port):
        assert [post(port, body, key=key).status for key in (None, KEY)] == [401, 200]


def test_a_bundled_defence_is_calibrated_whatever_the_limits_are(tmp_path: Path) -> None:
    with serving(tmp_path, Path("demo-pca@20"), "--max-pixels", 1024, "--max-pictures", 1) as (_, port):
        assert post(port, png(alu.data.sample("test").pixels[0])).status == 200
        found = ask(port, "GET", "/v1/model").json
        assert (found["name"], found["settings"]["purifier"]["components"]) == ("demo-pca@20", 20)


def test_a_second_service_cannot_write_to_the_same_files(tmp_path: Path, saved_pca: Path) -> None:
    with serving(tmp_path, saved_pca, "--state", "state.json"):
        done = fresh(tmp_path, "serve", saved_pca, "--port", 0, "--state", "state.json")
        assert "is being written by another alu" in done.sentence()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("cifar10-standard",), "a classifier without a defence"),
        (("nowhere/",), "Unknown model or defence 'nowhere/'"),
        (("own:build",), "No module named 'own'"),
        (("DEFENSE", "--host", "0.0.0.0"), "can be reached from other machines"),
        (("DEFENSE", "--host", "::"), "can be reached from other machines"),
        (("DEFENSE", "--key-file", "gone"), "Cannot read gone"),
        (("DEFENSE", "--key-file", "short"), "at least 16 letters"),
        (("DEFENSE", "--audit", "notes"), "not an audit log"),
        (("DEFENSE", "--audit", "notes/x"), "cannot be written"),
        (("DEFENSE", "--state", "notes"), "is not valid JSON"),
        (("DEFENSE", "--alarm", "0.5"), "a number above 1"),
        (("DEFENSE", "--device", "cuba"), "no device 'cuba'"),
        (("DEFENSE", "--host", "192.0.2.7", "--key-file", "key"), "Cannot listen on 192.0.2.7"),
        (("DEFENSE", "--batch-size", "0"), "Invalid value for '--batch-size'"),
    ],
)
def test_one_sentence_and_nothing_changed(
    tmp_path: Path, saved_pca: Path, words: tuple[str, ...], expected: str
) -> None:
    (tmp_path / "short").write_text("short\n")
    (tmp_path / "key").write_text(KEY)
    (tmp_path / "notes").write_text("my notes\n")
    for name in ("short", "key"):
        (tmp_path / name).chmod(0o600)
    before = snapshot(tmp_path)
    done = fresh(tmp_path, "serve", *(str(saved_pca) if word == "DEFENSE" else word for word in words), "--port", 0)
    assert expected in done.sentence()
    assert snapshot(tmp_path) == before


def test_the_end_may_come_while_it_is_being_loaded(tmp_path: Path) -> None:
    command = [Path(sys.executable).with_name("alu"), "serve", "demo", "--port", "0"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, env=ENVIRONMENT)
    time.sleep(5)
    process.terminate()
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (0, b"")


def test_a_missing_package_is_one_sentence(tmp_path: Path, saved_pca: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util\nfind = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name == 'fastapi' else find(name, *rest)\n"
    )
    path = os.pathsep.join([str(tmp_path), ENVIRONMENT.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "alu", "serve", str(saved_pca)],
        cwd=tmp_path, env={**ENVIRONMENT, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == (
        "alu: alu serve needs the package fastapi, which is not installed. In a checkout of alu, run: pip install -e "
        "'.[serve]'\n"
    )
