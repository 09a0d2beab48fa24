"""Requests that are wrong in every way we could think of, made from a seed."""

from __future__ import annotations

import base64
import io
import json
import random
import socket
import struct
import zlib
from collections.abc import Callable
from functools import cache

import numpy as np
from PIL import Image

from tests.serving import multipart

Request = bytes
"""A whole request, from its first line to its last byte."""
KINDS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "TGA", "ICO", "PCX")
NAMES = (
    "../../../etc/passwd",
    "/etc/cron.d/x",
    "C:\\autoexec.bat",
    "a\0b",
    "..",
    ".",
    "~root",
    "%2e%2e%2f",
    "x" * 5_000,
    "\r\nX: y",
)


def request(
    body: bytes, kind: str, query: str = "", extra: str = "", method: str = "POST", length: int | None = None
) -> Request:
    head = f"{method} /v1/decide{query} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n{extra}"
    return (
        f"{head}Content-Length: {len(body) if length is None else length}\r\n\r\n".encode("latin-1", "replace") + body
    )


def picture(draws: random.Random, side: int = 32) -> bytes:
    pixels = np.random.default_rng(draws.randrange(2**32)).integers(0, 256, (side, side, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, draws.choice(KINDS))
    return file.getvalue()


def noise(draws: random.Random) -> Request:
    """Random bytes, said to be anything."""
    kind = draws.choice(
        ["image/png", "application/json", "multipart/form-data; boundary=x", "image/tiff", "text/html", "", "/", ";;;"]
    )
    return request(draws.randbytes(draws.randrange(2_000)), kind)


def cut(draws: random.Random) -> Request:
    """A picture that ends too early."""
    whole = picture(draws)
    return request(whole[: draws.randrange(len(whole))], "image/png")


def flipped(draws: random.Random) -> Request:
    """A picture with some bytes changed, most of them in its header."""
    content = bytearray(picture(draws))
    for _ in range(draws.randrange(1, 12)):
        content[draws.randrange(min(len(content), draws.choice([40, 400, 10**9])))] = draws.randrange(256)
    return request(bytes(content), "image/png")


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width: int, height: int, *chunks: bytes) -> bytes:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(chunks) + chunk(b"IEND", b"")


@cache
def packed(count: int) -> bytes:
    return zlib.compress(b"\0" * count)


def bomb(draws: random.Random) -> Request:
    """A small file that would become large."""
    side = draws.choice([1_000, 20_000, 65_000, 2**31 - 1])
    zeros = packed(3_000_000)
    inside = png(9_000, 9_000, chunk(b"IDAT", zeros))
    icon = struct.pack("<HHHBBBBHHII", 0, 1, 1, 32, 32, 0, 0, 1, 32, len(inside), 22) + inside
    candidates = [
        png(side, side, chunk(b"IDAT", zeros)),
        png(32, 32, chunk(b"zTXt", b"k\0\0" + packed(80_000_000)), chunk(b"IDAT", zeros)),
        png(32, 32, chunk(b"iCCP", b"k\0\0" + zeros), chunk(b"IDAT", zeros)),
        png(32, 32, chunk(b"IDAT", packed(50_000_000))),
        b"GIF89a" + struct.pack("<HHBBB", 65535, 65535, 0, 0, 0) + b"," + b"\0\0\0\0\xff\xff\xff\xff\0\x08;",
        b"P6 60000 60000 255\n" + b"\0" * 100,
        b"BM" + struct.pack("<IHHIIiiHHIIiiII", 100, 0, 0, 54, 40, 60_000, 60_000, 1, 24, 0, 0, 0, 0, 0, 0),
        icon,
    ]  # fmt: skip
    return request(draws.choice(candidates), "image/png")


def wrong_json(draws: random.Random) -> Request:
    """JSON of wrong shape or with wrong values."""
    good = base64.b64encode(picture(draws)).decode()
    values = [
        None, [], {}, 3, "x", True, {"pictures": None}, {"pictures": {}}, {"pictures": [None]}, {"pictures": [[good]]},
        {"pictures": [good[:-3]]}, {"pictures": ["%%%"]}, {"pictures": [good], "logits": True}, {"picture": good},
        {"pictures": [""] * draws.randrange(200)}, {"pictures": ["data:"]}, {"pictures": ["data:,"]},
        {"pictures": [good + "\n"]},
    ]  # fmt: skip
    text = json.dumps(draws.choice(values))
    broken = [
        text,
        text[:-1],
        text + "]",
        "[" * 50_000,
        '{"pictures": [' + "1e999," * 99 + "1]}",
        text.replace('"', "'"),
        "\ufeff" + text,
    ]
    return request(draws.choice(broken).encode(), "application/json")


def wrong_multipart(draws: random.Random) -> Request:
    """Multipart that is cut, has a wrong boundary, odd headers or odd names."""
    body, kind = multipart({draws.choice(NAMES): picture(draws) for _ in range(draws.randrange(4))})
    change = draws.randrange(5)
    if change == 0:
        body = body[: draws.randrange(len(body))]
    elif change == 1:
        kind = f"multipart/form-data; boundary={draws.choice(['', 'x', 'b' * 200, chr(34) * 3, 'cut', 'ü'])}"
    elif change == 2:
        body = body.replace(
            b"Content-Disposition", draws.choice([b"", b"X" * 20_000, b"Content-Disposition: a\r\n" * 300])
        )
    elif change == 3:
        body = body.replace(b"\r\n", draws.choice([b"\n", b"\r", b"\r\r\n", b""]))
    else:
        body = (b"\r\n--cut-here" * draws.randrange(1, 2_000)) + body
    return request(body, kind)


QUERIES = ("?x", "?logits=maybe", "?" + "a" * 9_000, "?%ff=%fe", "/../v1/decide", "?a=1" * 50)
HOSTS = (b"", b"Host: a\r\nHost: b", b"Host: \xff", b"Host: evil.org")
VERSIONS = (b"HTTP/2.0", b"HTTP/1.0", b"", b"FTP")
CHUNKS = (b"zz\r\n", b"-1\r\n", b"5\r\nab", b"0\r\n\r\n", b"fffffffffffffffff\r\n")
PATHS = (b"/" + b"../" * 900, b"http://evil.org/", b"*", b"/%00", b"/\xff", b"//", b"/static/../../x")
EXTRAS = (
    "Transfer-Encoding: chunked", "Authorization: \xff\xfe", "Content-Encoding: gzip", "Range: bytes=0-1",
    "Upgrade: websocket\r\nConnection: Upgrade", "Expect: 100-continue", "Origin: http://evil.org", "Content-Length: 3",
)  # fmt: skip


def wrong_http(draws: random.Random) -> Request:
    """What a server should not accept, or answer with a refusal."""
    good, local = picture(draws), b" HTTP/1.1\r\nHost: localhost\r\n"
    long = draws.choice([10_000, 300_000])
    return draws.choice(
        [
            request(good, "image/png", method=draws.choice(["GET", "PUT", "DELETE", "BREW", "post", ""])),
            request(good, "image/png", query=draws.choice(QUERIES)),
            request(good, "image/png", extra=draws.choice(EXTRAS) + "\r\n"),
            request(good, "image/png", extra="X: " + "h" * long + "\r\n"),
            request(good, "image/png", extra="".join(f"X{number}: y\r\n" for number in range(long // 60))),
            request(good, "image/png", length=draws.choice([0, 1, len(good) + 100, 10**15, -5])),
            request(good, "image/png").replace(b"Host: localhost", draws.choice(HOSTS)),
            request(good, "image/png").replace(b"HTTP/1.1", draws.choice(VERSIONS)),
            b"POST /v1/decide" + local + b"Transfer-Encoding: chunked\r\n\r\n" + draws.choice(CHUNKS),
            b"GET " + draws.choice(PATHS) + local + b"\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            draws.randbytes(draws.randrange(1, 300)),
        ]
    )


MAKERS: tuple[Callable[[random.Random], Request], ...] = (
    noise, cut, flipped, flipped, bomb, wrong_json, wrong_multipart, wrong_multipart, wrong_http, wrong_http,
)  # fmt: skip


def malformed(number: int) -> tuple[str, Request]:
    """Request `number`, and what is wrong with it."""
    draws = random.Random(number)
    maker = MAKERS[number % len(MAKERS)]
    return maker.__name__, maker(draws)


def status_of(port: int, content: Request, patience: float = 1.5) -> int:
    """The status of the answer to these bytes; 0 where the server closed or kept waiting for more."""
    with socket.create_connection(("127.0.0.1", port), timeout=patience) as connection:
        reply = b""
        try:
            connection.sendall(content)
            while b"\r\n" not in reply and (piece := connection.recv(65536)):
                reply = (reply + piece).removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
        except (TimeoutError, ConnectionError):
            return 0
    return int(reply.split(b" ")[1]) if reply.startswith(b"HTTP/1.") else 0
