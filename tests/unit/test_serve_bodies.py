"""Bodies become pictures, or a refusal that says what was expected."""

from __future__ import annotations

import random
import time

import pytest

from alu.serve.bodies import LONGEST_NAME, Upload, Wants, uploads_in
from alu.serve.problems import Refused
from tests.serving import multipart

MARK = "multipart/form-data; boundary=cut-here"


def part(header: str, content: bytes = b"x") -> bytes:
    return f"--cut-here\r\n{header}\r\n\r\n".encode() + content + b"\r\n--cut-here--\r\n"


@pytest.mark.parametrize("kind", ["image/png", "IMAGE/JPEG; q=1", "application/octet-stream", ""])
def test_a_picture_as_it_is(kind: str) -> None:
    assert uploads_in(b"bytes", kind, 3) == [Upload("", b"bytes")]


def test_contents_are_kept_to_the_byte() -> None:
    contents = {"a": b"", "b": b"\r\n", "c": b"--cut-her\r\n--cut-heRe\r\n", "d": bytes(range(256)), "e": b"\r\n\r\n--"}
    body, kind = multipart(contents)
    assert uploads_in(body, kind, 9) == [Upload(name, content) for name, content in contents.items()]
    assert uploads_in(b"preamble\r\n" + body + b"epilogue", f'{kind}; charset="x"', 9)[3].content == bytes(range(256))


def test_any_bytes_survive() -> None:
    draws = random.Random(0)
    for _ in range(200):
        content = bytes(draws.choices(b"\r\n-cuthere:\x00\xff", k=draws.randrange(60)))
        body, kind = multipart({"a": content, "b": content})
        if b"\r\n--cut-here" not in b"\r\n" + content:
            assert [one.content for one in uploads_in(body, kind, 2)] == [content, content]


def test_fields_without_a_file_are_passed_over() -> None:
    body, kind = multipart({"a.png": b"1"})
    field = b'--cut-here\r\nContent-Disposition: form-data; name="note"\r\n\r\nhello\r\n'
    assert uploads_in(field + body, kind, 1) == [Upload("a.png", b"1")]


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ('Content-Disposition: form-data; name="p"; filename="../../a.png"', "../../a.png"),
        ('content-disposition: form-data; filename="käse.png"', "käse.png"),
        ("Content-Disposition: form-data; filename=plain", "plain"),
        ('Content-Disposition: form-data; filename=""', ""),
        ('Content-Disposition: form-data; filename="a\x07\x1bb"', "ab"),
        (f'Content-Disposition: form-data; filename="{"n" * 999}"', "n" * LONGEST_NAME),
    ],
)
def test_names_are_given_back_harmless(header: str, name: str) -> None:
    assert uploads_in(part(header), MARK, 1) == [Upload(name, b"x")]


@pytest.mark.parametrize(
    ("body", "kind", "cause"),
    [
        (b"--cut-here", MARK, "bad-request"),
        (b"--cut-here\r\n--cut-here--", MARK, "bad-request"),
        (part("no colon")[:-20], MARK, "bad-request"),
        (b"--cut-here junk\r\n\r\n\r\n--cut-here--", MARK, "bad-request"),
        (part("X: " + "h" * 9000), MARK, "bad-request"),
        (part(""), "multipart/form-data; boundary=" + "b" * 71, "bad-request"),
        (part(""), "multipart/form-data; boundary=é", "bad-request"),
        (part("no colon"), MARK, "no-picture"),
        (b"\r\n--cut-here" * 50 + b"--", MARK, "too-many-pictures"),
        (b"x", "application/x-www-form-urlencoded", "unknown-type"),
        (b'{"pictures": ["QQ==", "QQ="]}', "application/json", "bad-picture"),
        (b'\xff\xfe{"pictures": []}', "application/json", "bad-request"),
        (b'{"pictures": ["\\ud800"]}', "application/json", "bad-picture"),
        (b"null", "application/json", "bad-request"),
    ],
)
def test_refusals(body: bytes, kind: str, cause: str) -> None:
    with pytest.raises(Refused) as refused:
        uploads_in(body, kind, 3)
    assert refused.value.cause == cause


def test_line_breaks_in_a_content_type_do_no_harm() -> None:
    assert uploads_in(b"x", "image/png\r\nX: y\r\n", 3) == [Upload("", b"x")]


def test_a_long_body_is_taken_apart_quickly() -> None:
    start = time.perf_counter()
    with pytest.raises(Refused, match="bad-request"):
        uploads_in(b"\r\n--cut-her" * 1_000_000, MARK, 64)
    assert time.perf_counter() - start < 2.0


def test_what_is_wanted() -> None:
    assert Wants.of(b"") == Wants(False, False)
    assert Wants.of(b"logits=true&purified=0") == Wants(True, False)
    for query in (b"x=1", b"logits", b"logits=TRUE", b"\xff=1", b"&".join([b"logits=1"] * 20)):
        with pytest.raises(Refused, match="bad-request"):
            Wants.of(query)
