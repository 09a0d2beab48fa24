"""Decoding in several threads, and what is refused before it is decoded."""

from __future__ import annotations

import io
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from alu.decoding import decode, fitted, opened
from alu.errors import DataError


def png(width: int, height: int, value: int = 7) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), (value, value, value)).save(file, "PNG")
    return file.getvalue()


def test_threads_that_decode_at_the_same_time_leave_the_warnings_as_they_were() -> None:
    before = list(warnings.filters)
    inside = threading.Barrier(4)

    def work(number: int) -> int:
        for _ in range(20):
            with opened(png(4, 4), "it"):
                inside.wait(10)  # all of them are inside at once, and leave in any order
        return int(decode(png(4, 4, number), "it")[0, 0, 0])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [0, 1, 2, 3]
    assert list(warnings.filters) == before


def test_the_first_to_leave_takes_nothing_from_the_others() -> None:
    first, second = opened(png(4, 4), "first"), opened(png(4, 4), "second")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    inside = warnings.filters[0]
    second.__exit__(None, None, None)
    assert inside[0] == "error"
    assert inside[2] is Image.DecompressionBombWarning


def test_too_many_pixels_are_an_error_in_every_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)

    def refused(_: int) -> bool:
        with pytest.raises(DataError, match="more than 100 pixels"):
            decode(png(11, 10), "it")
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(refused, range(40)))


def test_a_picture_that_fits_is_that_of_decode() -> None:
    assert np.array_equal(fitted(png(5, 4), "it", (3, 4, 5), False, "Scale it."), decode(png(5, 4), "it", None, 3))
    assert np.array_equal(fitted(png(50, 40), "it", (3, 4, 5), True, ""), decode(png(50, 40), "it", (4, 5), 3))
    assert fitted(png(5, 4), "it", (1, 4, 5), False, "").shape == (1, 4, 5)


def test_another_size_is_refused_by_the_header_alone() -> None:
    cut = png(500, 400)[:60]  # its pixels could not be decoded
    with pytest.raises(DataError, match=r"^it is 500 x 400 pixels; this defence reads 5 x 4\. Scale it\.$"):
        fitted(cut, "it", (3, 4, 5), False, "Scale it.")
    with pytest.raises(DataError, match=r"it has 500 x 400 pixels; more than 1000 are not decoded"):
        fitted(cut, "it", (3, 4, 5), True, "", 1000)
    with pytest.raises(DataError, match="it is 4 x 5 pixels; this defence reads 5 x 4"):
        fitted(png(4, 5), "it", (3, 4, 5), False, "Scale it.")
