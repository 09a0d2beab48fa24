"""Client: ask a running `alu serve` about pictures. Needs the standard library alone; arrays need NumPy."""

from __future__ import annotations

import base64
import json
import secrets
import struct
import time
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from alu.errors import AluError, InputError

TRIES = 5
LONGEST_WAIT = 10.0
COLOURS = {1: 0, 3: 2, 4: 6}
"""PNG's number for gray, RGB and RGBA, by channels."""


class Client:
    """Asks a running service.

    Parameters
    ----------
    url
        Where it listens, such as "http://127.0.0.1:8000".
    key
        Its key, if it has one.
    timeout
        Seconds to wait for each answer.
    at_once
        Pictures in each request.

    Examples
    --------
    >>> client = alu.Client("http://127.0.0.1:8000", key="a-key-of-16-letters-or-more")
    """

    def __init__(self, url: str, key: str | None = None, timeout: float = 60.0, at_once: int = 32) -> None:
        self.url, self.key, self.timeout, self.at_once = url.rstrip("/"), key, timeout, at_once

    def decide(self, pictures: Iterable[Any], *, logits: bool = False, purified: bool = False) -> list[SimpleNamespace]:
        """The decision on each picture: `label`, `class_name`, `accepted`, `flagged`, `state`, `score`, `p_value`.

        Parameters
        ----------
        pictures
            Paths, the bytes of picture files, or arrays, also tensors: uint8, or float in [0, 1], which is rounded to 8
            bits; [C, H, W], [H, W, C] or [H, W].
        logits, purified
            Whether to ask for `pre_logits` and `post_logits`, and for `purified`, the bytes of a PNG.

        Examples
        --------
        >>> alu.Client("http://127.0.0.1:8000").decide([])
        []
        """
        given = [pictures] if isinstance(pictures, str | bytes | Path) else list(pictures)
        files = [_file(picture) for picture in given]
        query = f"?logits={str(logits).lower()}&purified={str(purified).lower()}"
        rows: list[dict[str, Any]] = []
        for start in range(0, len(files), self.at_once):
            rows += self._ask("/v1/decide" + query, files[start : start + self.at_once])["pictures"]
        return [_answer(row) for row in rows]

    def _ask(self, path: str, files: Sequence[bytes]) -> dict[str, Any]:
        mark = secrets.token_hex(16)
        head = f'--{mark}\r\nContent-Disposition: form-data; name="p"; filename="p"\r\n\r\n'.encode()
        body = b"".join(head + file + b"\r\n" for file in files) + f"--{mark}--\r\n".encode()
        headers = {"Content-Type": f"multipart/form-data; boundary={mark}"}
        headers |= {"Authorization": f"Bearer {self.key}"} if self.key else {}
        for attempt in range(TRIES):
            try:
                with urlopen(Request(self.url + path, body, headers), timeout=self.timeout) as response:
                    found: dict[str, Any] = json.load(response)
                    return found
            except HTTPError as error:
                if error.code != 503 or attempt == TRIES - 1:
                    raise AluError(f"{self.url} refused ({error.code}): {_detail(error)}") from error
                wait = error.headers.get("Retry-After", "1")
                time.sleep(min(LONGEST_WAIT, float(wait) if wait.isdecimal() else 1.0))
            except (URLError, OSError, ValueError) as error:
                reason = getattr(error, "reason", error)
                raise AluError(f"{self.url} cannot be asked ({reason}). Is alu serve running there?") from error
        raise AssertionError("the last attempt returns or raises")


def _file(picture: Any) -> bytes:
    """The bytes of a picture file."""
    if isinstance(picture, bytes):
        return picture
    if isinstance(picture, str | Path):
        try:
            return Path(picture).read_bytes()
        except OSError as error:
            raise InputError(f"Cannot read {picture}: {error.strerror or error}.") from error
    import numpy as np

    pixels = np.asarray(picture)
    if pixels.dtype.kind == "f" and pixels.size and 0.0 <= pixels.min() <= pixels.max() <= 1.0:
        pixels = np.rint(pixels * 255.0).astype(np.uint8)
    if pixels.ndim == 3 and pixels.shape[0] in COLOURS:
        pixels = pixels.transpose(1, 2, 0)
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or channels not in COLOURS or not pixels.size:
        raise InputError(
            "Client needs paths, bytes, or arrays that are uint8 or float in [0, 1], [C, H, W], [H, W, C] or [H, W]; "
            f"one is {type(picture).__name__} of {pixels.dtype} {list(pixels.shape)}."
        )
    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.tobytes() for row in np.ascontiguousarray(pixels))
    header = struct.pack(">IIBBBBB", width, height, 8, COLOURS[channels], 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


def _answer(row: dict[str, Any]) -> SimpleNamespace:
    if row.get("purified"):
        row["purified"] = base64.b64decode(row["purified"])
    return SimpleNamespace(class_name=row.pop("class"), **row)


def _detail(error: HTTPError) -> str:
    try:
        return str(json.load(error)["detail"])
    except (ValueError, KeyError, TypeError, OSError):
        return str(error.reason)
