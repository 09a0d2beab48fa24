"""The body of a request -> pictures, in memory: one picture as it is, multipart files, or JSON with base64."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from urllib.parse import parse_qsl

from alu.serve.problems import Refused

LONGEST_NAME = 255
LONGEST_BOUNDARY = 70  # RFC 2046
LONGEST_HEADERS = 8_192
SWITCHES = {"true": True, "1": True, "false": False, "0": False}
EXPECTED = "Send one picture (image/png, image/jpeg, ...), files as multipart/form-data, or JSON with base64."


@dataclass(frozen=True)
class Upload:
    """One picture of a request, still encoded; `name` is what the sender calls it and is never used as a path."""

    name: str
    content: bytes


@dataclass(frozen=True)
class Wants:
    """What else an answer should hold: the logits, the purified picture."""

    logits: bool = False
    purified: bool = False

    @staticmethod
    def of(query: bytes) -> Wants:
        """From a query string; anything else in it is refused."""
        if not query:
            return Wants()
        chosen: dict[str, bool] = {}
        try:
            pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=10)
        except ValueError as error:  # too many fields, or bytes that are no text
            raise Refused("bad-request", f"The query string cannot be read: {error}.") from error
        for name, value in pairs:
            if name not in ("logits", "purified") or value not in SWITCHES:
                raise Refused(
                    "bad-request",
                    f"The query string may hold logits=true and purified=true; it holds {name[:40]}={value[:40]}.",
                )
            chosen[name] = SWITCHES[value]
        return Wants(**chosen)


def uploads_in(body: bytes, content_type: str, most: int) -> list[Upload]:
    """The pictures in a body, at least one and at most `most`."""
    header = Message()
    header["content-type"] = content_type.replace("\n", " ").replace("\r", " ") or "application/octet-stream"
    kind = header.get_content_type()
    if kind.startswith("image/") or kind == "application/octet-stream":
        found = [Upload("", body)] if body else []
    elif kind == "multipart/form-data":
        found = _parts(body, str(header.get_param("boundary", "")), most)
    elif kind == "application/json":
        found = _strings(body, most)
    else:
        raise Refused("unknown-type", f"The body is said to be {kind[:80]}. {EXPECTED}")
    if not found:
        raise Refused("no-picture", f"The body holds no picture. {EXPECTED}")
    if len(found) > most:
        raise Refused("too-many-pictures", f"At most {most} pictures are taken in one request. Send several requests.")
    return found


def _parts(body: bytes, boundary: str, most: int) -> list[Upload]:
    """Every part of a multipart body that is a file, in order; fields without a file name are passed over."""
    try:
        mark = boundary.encode("ascii")
    except UnicodeEncodeError:
        mark = b""
    if not 0 < len(mark) <= LONGEST_BOUNDARY:
        raise Refused("bad-request", "multipart/form-data needs a boundary of 1 to 70 characters in its content type.")
    # Before the first mark is nothing or a preamble; after the last one two dashes. Cutting is done by bytes.split: a
    # parser that looks at every character could be kept busy for seconds.
    pieces = (b"\r\n" + body).split(b"\r\n--" + mark, 4 * most + 2)
    if len(pieces) < 2 or not pieces[-1].startswith(b"--"):
        crowded = len(pieces) == 4 * most + 3
        if crowded:
            raise Refused("too-many-pictures", f"At most {most} pictures are taken in one request.")
        raise Refused("bad-request", "The multipart body is cut off: its last boundary is missing.")
    return [upload for piece in pieces[1:-1] if (upload := _part(piece)) is not None]


def _part(piece: bytes) -> Upload | None:
    padding, line, rest = piece.partition(b"\r\n")
    headers, blank, content = (b"\r\n" + rest).partition(b"\r\n\r\n")
    if padding.strip(b" \t") or not line or not blank or len(headers) > LONGEST_HEADERS:
        raise Refused("bad-request", "A part of the multipart body has no complete header.")
    try:
        # Browsers send names as UTF-8; left as bytes, mail's parser would make question marks of them.
        name = HeaderParser().parsestr(headers.decode("utf-8", "replace").lstrip("\r\n") + "\r\n\r\n").get_filename()
    except Exception as error:  # the standard library's parser was made for mail and fails in many ways
        raise Refused("bad-request", "A part of the multipart body has a header that cannot be read.") from error
    return None if name is None else Upload(_plain(str(name)), content)


def _strings(body: bytes, most: int) -> list[Upload]:
    """The pictures of {"pictures": ["base64", ...]}; a data: address is taken too."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused("bad-request", "The body is said to be JSON, but cannot be read as JSON.") from error
    pictures = given.get("pictures") if isinstance(given, dict) else None
    if not isinstance(pictures, list) or not all(isinstance(one, str) for one in pictures):
        raise Refused(
            "bad-request",
            'JSON must be {"pictures": [...]} with each picture file as a base64 string. Ask for logits and purified '
            "pictures in the query string.",
        )
    if unknown := sorted(set(given) - {"pictures"}):
        raise Refused("bad-request", f"JSON holds {unknown[0][:40]!r}; only pictures are taken.")
    if len(pictures) > most:
        raise Refused("too-many-pictures", f"At most {most} pictures are taken in one request. Send several requests.")
    found = []
    for number, text in enumerate(pictures):
        encoded = text.partition(",")[2] if text[:5] == "data:" else text
        try:
            found.append(Upload("", base64.b64decode(encoded, validate=True)))
        except (binascii.Error, ValueError) as error:
            raise Refused(
                "bad-picture",
                f"Picture {number} is not valid base64. Encode the bytes of the file.",
                more={"picture": number},
            ) from error
    return found


def _plain(name: str) -> str:
    """A name that can be given back: no control characters, not too long."""
    text = name.encode("utf-8", "replace").decode("utf-8")
    return "".join(one for one in text if one.isprintable())[:LONGEST_NAME]
