"""The client: paths, bytes and arrays; portions; refusals as sentences; patience."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import alu
from alu import client as place
from alu.errors import AluError, InputError
from alu.serve.problems import Refused
from tests.serving import Brightness, Running, picture, running


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with running(Brightness) as found:
        yield found


def test_paths_bytes_arrays_and_tensors(service: Running, tmp_path: Path) -> None:
    (tmp_path / "red.png").write_bytes(picture(red=9))
    blue = np.zeros((8, 8, 3), np.uint8)
    blue[..., 2] = 9
    green = torch.zeros(3, 8, 8)
    green[1] = 9 / 255
    gray = np.full((8, 8), 40, np.uint8)
    answers = alu.Client(service.url).decide(
        [tmp_path / "red.png", str(tmp_path / "red.png"), picture(blue=9), blue, green, gray]
    )
    assert [one.class_name for one in answers] == ["red", "red", "blue", "blue", "green", "red"]
    assert answers[3].score == answers[4].score == pytest.approx(9 / 255 / 3, abs=1e-6)
    assert vars(answers[0]).keys() == {
        "name",
        "label",
        "class_name",
        "accepted",
        "flagged",
        "state",
        "score",
        "p_value",
    }
    assert alu.Client(service.url + "/").decide(tmp_path / "red.png")[0].label == 0


def test_pixels_arrive_as_they_are() -> None:
    draws = np.random.default_rng(0)
    for shape in ((5, 7), (5, 7, 3), (5, 7, 4), (5, 7, 1)):
        pixels = draws.integers(0, 256, shape, dtype=np.uint8)
        shown = np.asarray(Image.open(io.BytesIO(place._file(pixels))))
        assert np.array_equal(shown, pixels.squeeze(-1) if shape[-1] == 1 else pixels)
    images = draws.random((3, 5, 7)).astype(np.float32)
    shown = np.asarray(Image.open(io.BytesIO(place._file(images))))
    assert np.array_equal(shown, np.rint(images.transpose(1, 2, 0) * 255))


def test_logits_and_purified_pictures(service: Running) -> None:
    (answer,) = alu.Client(service.url).decide([picture(red=51)], logits=True, purified=True)
    assert answer.pre_logits == [0.2, 0.0, 0.0]
    assert Image.open(io.BytesIO(answer.purified)).getpixel((0, 0)) == (204, 255, 255)


def test_many_pictures_go_in_portions(service: Running) -> None:
    engine = service.service.batcher.engine
    assert isinstance(engine, Brightness)
    answers = alu.Client(service.url, at_once=7).decide(picture(red=number) for number in range(1, 31))
    assert [round(one.score * 3 * 255) for one in answers] == list(range(1, 31))
    assert alu.Client(service.url).decide([]) == []


@pytest.mark.parametrize(
    "wrong",
    [np.zeros((8, 8), np.int64), np.zeros((2, 8, 8), np.uint8), np.full((8, 8), 1.5), np.zeros((1, 3, 8, 8)), 7, None,
     np.zeros((0, 8), np.uint8), np.full((3, 8, 8), np.nan)],
)  # fmt: skip
def test_what_is_no_picture_is_refused_before_anything_is_sent(wrong: object) -> None:
    with pytest.raises(InputError, match="Client needs paths, bytes, or arrays"):
        alu.Client("http://127.0.0.1:9").decide([wrong])


def test_errors_are_sentences(service: Running, tmp_path: Path) -> None:
    client = alu.Client(service.url)
    with pytest.raises(AluError, match=r"refused \(422\): Picture 0 \(p\) cannot be read as a picture"):
        client.decide([b"bad"])
    with pytest.raises(InputError, match=r"Cannot read .*gone.png: No such file"):
        client.decide([tmp_path / "gone.png"])
    with pytest.raises(AluError, match="Is alu serve running there"):
        alu.Client("http://127.0.0.1:9").decide([picture()])
    with pytest.raises(AluError, match="cannot be asked"):
        alu.Client("no address").decide([picture()])


def test_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(Brightness, key="k" * 16) as locked:
        with pytest.raises(AluError, match=r"refused \(401\): Send the key"):
            alu.Client(locked.url, key="wrong" * 4).decide([picture()])
        assert alu.Client(locked.url, key="k" * 16).decide([picture()])[0].label == 0


def test_it_asks_again_when_told_to_wait(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    refusals = iter([Refused("queue-full", "Later.", retry_after=3)] * 2)
    monkeypatch.setattr(place.time, "sleep", waits.append)
    monkeypatch.setattr(service.service.batcher, "admit", lambda ticket, count: _raise(next(refusals, None)))
    assert alu.Client(service.url).decide([picture()])[0].label == 0
    assert waits == [3.0, 3.0]
    endless = Refused("queue-full", "Later.", retry_after=99)
    monkeypatch.setattr(service.service.batcher, "admit", lambda ticket, count: _raise(endless))
    waits.clear()
    with pytest.raises(AluError, match=r"refused \(503\): Later\."):
        alu.Client(service.url).decide([picture()])
    assert waits == [place.LONGEST_WAIT] * (place.TRIES - 1)


def _raise(refused: Refused | None) -> None:
    if refused is not None:
        raise refused


def test_the_standard_library_is_enough() -> None:
    code = "import sys, alu; alu.Client('http://127.0.0.1:9').decide([]); print({'numpy', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
