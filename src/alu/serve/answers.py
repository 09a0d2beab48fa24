"""What the service answers: the fields, as a schema for /docs, and as plain values that become JSON."""

from __future__ import annotations

import base64
import io
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import BaseModel, Field

from alu.serve.bodies import Wants
from alu.serve.engine import Answers

DIGITS = 6
"""Decimals of scores, p-values and logits, as `alu predict` writes them."""


class PictureAnswer(BaseModel):
    """The decision on one picture."""

    name: str = Field(description="What the sender called the picture; empty if it has no name.")
    label: int = Field(description="The number of the class.")
    class_: str = Field(alias="class", description="The name of the class.")
    accepted: bool = Field(description="False where the defence does not answer; label is then only its guess.")
    flagged: bool = Field(description="Whether the detector flags the picture: its p-value is at most false_alarm.")
    state: str = Field(description="clean, suspicious, attacked or corrupted.")
    score: float | None = Field(description="The suspicion score; higher is worse.")
    p_value: float | None = Field(description="How unusual the picture is among clean ones.")
    pre_logits: list[float] | None = Field(None, description="Logits before purification, with logits=true.")
    post_logits: list[float] | None = Field(None, description="Logits after purification, with logits=true.")
    purified: str | None = Field(None, description="The purified picture, a PNG in base64, with purified=true.")


class DecideAnswer(BaseModel):
    """The decisions on all pictures of a request, in their order."""

    request: str = Field(description="The number of the request, also in the header X-Request-ID.")
    model: str = Field(description="SHA-256 of the weights and settings that answered.")
    calibration: str = Field(description="SHA-256 of the calibration that flags and p-values come from.")
    pictures: list[PictureAnswer]


class ProblemAnswer(BaseModel):
    """Why a request was refused (RFC 9457)."""

    type: str = Field(description="urn:alu:problem: and the cause.")
    title: str = Field(description="The cause as a sentence.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What was expected, what came, and what to do.")
    cause: str = Field(description="The cause in one word, the same as in alu_refusals_total.")
    request: str = Field(description="The number of the request.")
    picture: int | None = Field(None, description="The place of the picture it is about, counted from 0.")


def rows_of(answers: Answers, classes: tuple[str, ...]) -> list[dict[str, Any]]:
    """For each picture of a batch, the fields that every answer and the audit log hold."""
    columns = (answers.label, answers.accepted, answers.flagged, answers.state, answers.score, answers.p_value)
    return [
        {
            "label": label,
            "class": classes[label] if label < len(classes) else str(label),
            "accepted": accepted,
            "flagged": flagged,
            "state": state,
            "score": _rounded(score),
            "p_value": _rounded(p_value),
        }
        for label, accepted, flagged, state, score, p_value in zip(
            *(column.tolist() if isinstance(column, np.ndarray) else column for column in columns), strict=True
        )
    ]


def extras_of(answers: Answers, row: int, wants: Wants) -> dict[str, Any]:
    """What a request asked for beyond these fields; the purified picture is still an array."""
    found: dict[str, Any] = {}
    if wants.logits:
        for name in ("pre_logits", "post_logits"):
            found[name] = [round(value, DIGITS) for value in getattr(answers, name)[row].tolist()]
    if wants.purified and answers.purified is not None:
        found["purified"] = answers.purified[row]
    return found


def as_png(image: NDArray[np.float32]) -> str:
    """An image [C, H, W] in [0, 1] as a PNG in base64."""
    pixels = np.rint(image * 255.0).astype(np.uint8).transpose(1, 2, 0)
    file = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode("ascii")


def _rounded(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return round(value, DIGITS) if math.isfinite(value) else None
