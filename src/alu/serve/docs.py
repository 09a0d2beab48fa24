"""/docs: what can be asked, on one page that needs no other host; made from the OpenAPI description."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, Template

from alu.serve.problems import CAUSES

if TYPE_CHECKING:
    from alu.serve.service import Service

PICTURE = {"schema": {"type": "string", "format": "binary"}}
DECIDE: dict[str, Any] = {
    "parameters": [
        {"name": name, "in": "query", "required": False, "schema": {"type": "boolean"}, "description": about}
        for name, about in (
            ("logits", "Add the logits before and after purification."),
            ("purified", "Add the purified picture, a PNG in base64."),
        )
    ],
    "requestBody": {
        "required": True,
        "content": {
            "image/png": PICTURE,
            "image/jpeg": PICTURE,
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {"pictures": {"type": "array", "items": {"type": "string", "format": "binary"}}},
                }
            },
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["pictures"],
                    "properties": {
                        "pictures": {"type": "array", "items": {"type": "string", "contentEncoding": "base64"}}
                    },
                }
            },
        },
    },
}
"""What /v1/decide takes, for the OpenAPI description: its body is read by `bodies`, not by FastAPI."""


@cache
def _template() -> Template:
    text = (files("alu.serve") / "templates" / "docs.html.j2").read_text()
    return Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(text)


def docs_page(description: dict[str, Any], service: Service, base: str, key: bool) -> str:
    """The page as HTML; `base` is the address under which it was asked for."""
    return _template().render(
        description=description, engine=service.batcher.engine, limits=service.limits, resize=service.settings.resize,
        base=base, key=key, header=' -H "Authorization: Bearer $ALU_KEY"' if key else "", causes=CAUSES,
    )  # fmt: skip
