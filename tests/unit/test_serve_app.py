"""What the service answers at each address, over real sockets."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

from alu.serve.answers import DecideAnswer, ProblemAnswer
from alu.serve.problems import CAUSES
from tests.serving import Brightness, Running, multipart, picture, running, wait_for

FORM = "multipart/form-data; boundary=cut-here"


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with running(Brightness) as found:
        yield found


def watched(service: Running, pictures: int) -> Any:
    """What the monitor shows once it has seen so many pictures: they are answered before they are counted."""
    wait_for(lambda: service.ask("GET", "/v1/monitor").json["pictures"] == pictures)
    return service.ask("GET", "/v1/monitor").json


def test_one_picture(service: Running) -> None:
    reply = service.decide(picture(green=50), **{"X-Request-ID": "mine-1.2"})
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert reply.headers["x-request-id"] == "mine-1.2"
    score = np.float32(50) / np.float32(255) / 3
    at_least = int((np.linspace(0, 0.5, 99) >= score).sum())
    assert reply.json == {
        "request": "mine-1.2",
        "model": "m" * 64,
        "calibration": "c" * 64,
        "pictures": [
            {
                "name": "", "label": 1, "class": "green", "accepted": True, "flagged": False, "state": "clean",
                "score": pytest.approx(score, abs=1e-6), "p_value": pytest.approx((1 + at_least) / 100),
            }
        ],
    }  # fmt: skip
    assert DecideAnswer.model_validate(reply.json).pictures[0].class_ == "green"


def test_a_flagged_picture_is_not_accepted(service: Running) -> None:
    (answer,) = service.decide(picture(255, 255, 254)).json["pictures"]
    assert (answer["accepted"], answer["flagged"], answer["state"]) == (False, True, "attacked")


def test_files_come_back_in_order_with_their_names(service: Running) -> None:
    files = {
        "a.png": picture(red=9),
        "b c.png": picture(blue=9),
        "../../etc/passwd": picture(green=9),
        "ä.jpg": picture(red=9, kind="JPEG"),
    }
    body, kind = multipart(files)
    reply = service.decide(body, kind)
    assert [(one["name"], one["class"]) for one in reply.json["pictures"]] == [
        ("a.png", "red"), ("b c.png", "blue"), ("../../etc/passwd", "green"), ("ä.jpg", "red"),
    ]  # fmt: skip


def test_json(service: Running) -> None:
    text = base64.b64encode(picture(blue=9)).decode()
    body = json.dumps({"pictures": [text, f"data:image/png;base64,{text}"]}).encode()
    assert [one["class"] for one in service.decide(body, "application/json").json["pictures"]] == ["blue", "blue"]


def test_logits_and_the_purified_picture_on_request(service: Running) -> None:
    (answer,) = service.decide(picture(red=51), query="?logits=true&purified=1").json["pictures"]
    assert (answer["pre_logits"], answer["post_logits"]) == ([0.2, 0.0, 0.0], [0.4, 0.0, 0.0])
    shown = Image.open(io.BytesIO(base64.b64decode(answer["purified"])))
    assert (shown.format, shown.getpixel((0, 0))) == ("PNG", (204, 255, 255))
    (plain,) = service.decide(picture(red=51), query="?logits=false").json["pictures"]
    assert not {"pre_logits", "purified"} & set(plain)


@pytest.mark.parametrize(
    ("body", "kind", "query", "status", "cause"),
    [
        (b"no picture", "image/png", "", 422, "bad-picture"),
        (b"", "image/png", "", 422, "no-picture"),
        (picture(size=(9, 8)), "image/png", "", 422, "bad-picture"),
        (picture(), "text/html", "", 415, "unknown-type"),
        (picture(), "image/png", "?logit=true", 400, "bad-request"),
        (picture(), "image/png", "?logits=yes", 400, "bad-request"),
        (b"{", "application/json", "", 400, "bad-request"),
        (b"[" * 100_000, "application/json", "", 400, "bad-request"),
        (b'{"pictures": 3}', "application/json", "", 400, "bad-request"),
        (b'{"pictures": [3]}', "application/json", "", 400, "bad-request"),
        (b'{"pictures": [], "more": 1}', "application/json", "", 400, "bad-request"),
        (b'{"pictures": ["*"]}', "application/json", "", 422, "bad-picture"),
        (b'{"pictures": []}', "application/json", "", 422, "no-picture"),
        (json.dumps({"pictures": [""] * 65}).encode(), "application/json", "", 413, "too-many-pictures"),
        (b"x" * (16 * 2**20 + 1), "image/png", "", 413, "too-large"),
        (picture(), "multipart/form-data", "", 400, "bad-request"),
        (picture(), "multipart/form-data; boundary=x", "", 400, "bad-request"),
        (multipart({"a": picture()})[0][:-8], FORM, "", 400, "bad-request"),
        (multipart({})[0], FORM, "", 422, "no-picture"),
        (multipart({str(n): b"" for n in range(65)})[0], FORM, "", 413, "too-many-pictures"),
    ],
)  # fmt: skip
def test_refusals(service: Running, body: bytes, kind: str, query: str, status: int, cause: str) -> None:
    before = list(service.service.batcher.engine.asked)  # type: ignore[union-attr]
    reply = service.decide(body, kind, query)
    assert (reply.status, reply.cause) == (status, cause)
    ProblemAnswer.model_validate(reply.json)
    assert service.service.batcher.engine.asked == before  # type: ignore[union-attr]
    assert (service.service.batcher.admitted, service.service.intake.held) == (0, 0), "room is given back"


def test_a_broken_picture_among_good_ones_is_named_and_none_is_answered(service: Running) -> None:
    body, kind = multipart({"good.png": picture(), "bad.png": b"bad"})
    reply = service.decide(body, kind)
    assert (reply.cause, reply.json["picture"]) == ("bad-picture", 1)
    assert "bad.png" in reply.json["detail"]


def test_a_body_of_unknown_length_is_limited_too(service: Running) -> None:
    chunks = (b"x" * 2**20 for _ in range(17))
    reply = service.ask("POST", "/v1/decide", chunks, {"Content-Type": "image/png"})
    assert (reply.status, reply.cause) == (413, "too-large")
    whole = picture(red=3)
    chunked = service.ask("POST", "/v1/decide", iter([whole[:20], whole[20:]]), {"Content-Type": "image/png"})
    assert chunked.json["pictures"][0]["class"] == "red"


def test_what_nobody_expected_is_a_problem_answer_too(
    service: Running, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fail(*_: object) -> bytes:
        raise KeyError("what?")

    monkeypatch.setattr(service.service, "decide", fail)
    reply = service.decide(picture(), **{"X-Request-ID": "odd"})
    assert (reply.status, reply.cause) == (500, "failed")
    assert "alu: request odd failed (KeyError: 'what?').\n" in capsys.readouterr().err


def test_other_addresses_and_methods(service: Running) -> None:
    assert service.ask("GET", "/nowhere").cause == "not-found"
    assert service.ask("GET", "/v1/decide").cause == "wrong-method"
    assert service.ask("GET", "/healthz").json == {"alive": True}
    assert service.ask("GET", "/readyz").json == {"ready": True}


def test_the_model_is_described(service: Running) -> None:
    found = service.ask("GET", "/v1/model").json
    assert (found["name"], found["shape"], found["classes"]) == ("brightness", [3, 8, 8], ["red", "green", "blue"])
    assert sum(found["clean_scores"]["counts"]) == 99
    assert len(found["clean_scores"]["edges"]) == len(found["clean_scores"]["counts"]) + 1
    assert found["limits"]["pictures"] == 64


def test_the_monitor_is_shown_moves_and_can_begin_again() -> None:
    with running(Brightness) as service:
        body, kind = multipart({str(number): picture(250, 250, 200 + number) for number in range(40)})
        assert service.ask("GET", "/v1/monitor").json["recent"]["flagged_rate"] is None
        assert service.decide(body, kind).status == 200
        found = watched(service, 40)
        assert (found["on"], found["pictures"], found["flagged"], found["abstained"], found["watched"]) == (
            True,
            40,
            40,
            40,
            40,
        )
        assert found["alarm"]
        assert 1 < found["alarm_at"] < 40
        assert found["log10_evidence"] > 2
        recent = found["recent"]
        assert (recent["pictures"], recent["first"], recent["flagged_rate"]) == (40, 1, 1.0)
        assert len(recent["log10_evidence"]) == 40
        assert recent["log10_evidence"][-1] == found["log10_evidence"]
        assert sum(recent["p_value_histogram"]) == 40
        again = service.ask("POST", "/v1/monitor/reset").json
        assert (again["alarm"], again["log10_evidence"], again["watched"], again["pictures"]) == (False, 0.0, 0, 40)


def test_a_defence_without_scores_has_no_monitor_and_says_why() -> None:
    with running(lambda: Brightness(clean=0)) as service:
        (answer,) = service.decide(picture()).json["pictures"]
        assert (answer["score"], answer["p_value"]) == (None, None)
        found = watched(service, 1)
        assert (found["on"], found["why_off"]) == (False, "It has none.")
        assert found["recent"]["log10_evidence"] == [None]
        assert service.ask("POST", "/v1/monitor/reset").cause == "monitor-off"
        assert "alu_monitor_on 0.0" in service.ask("GET", "/metrics").body.decode()
        assert service.ask("GET", "/v1/model").json["clean_scores"] is None


def test_metrics_count_what_happened() -> None:
    with running(Brightness) as service:
        service.decide(picture())
        service.decide(picture(255, 255, 255))
        service.decide(b"bad")
        service.ask("GET", "/made/up")
        watched(service, 2)
        text = service.ask("GET", "/metrics").body.decode()
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert values['alu_requests_total{path="/v1/decide",status="200"}'] == "2.0"
    assert values['alu_requests_total{path="/v1/decide",status="422"}'] == "1.0"
    assert values['alu_requests_total{path="other",status="404"}'] == "1.0"
    assert values['alu_refusals_total{cause="bad-picture"}'] == "1.0"
    assert values['alu_pictures_total{state="clean"}'] == values['alu_pictures_total{state="attacked"}'] == "1.0"
    assert values["alu_flagged_total"] == values["alu_abstained_total"] == "1.0"
    for name in ("batch_pictures", "queue_seconds", "compute_seconds", "score"):
        assert values[f"alu_{name}_count"] == "2.0"
    assert values["alu_answer_seconds_count"] == "3.0"
    assert values["alu_monitor_pictures"] == "2.0"
    assert values["alu_ready"] == "1.0"
    assert values["alu_queue_pictures"] == "0.0"
    assert 'alu_defense_info{calibration="cccc' in text
    assert float(values["process_resident_memory_bytes"]) > 0


def test_the_documentation_needs_no_other_host_and_names_everything(service: Running) -> None:
    page = service.ask("GET", "/docs")
    text = page.body.decode()
    assert page.headers["content-type"].startswith("text/html")
    assert not re.findall(r'(?:src|href)="(?!openapi\.json)', text)
    assert not re.findall(r"https?://(?!127\.0\.0\.1)", text)
    description = service.ask("GET", "/openapi.json").json
    for path in description["paths"]:
        assert f"<code>{path}</code>" in text
    for cause in CAUSES:
        assert f"<code>{cause}</code>" in text
    for field in DecideAnswer.model_json_schema()["$defs"]["PictureAnswer"]["properties"]:
        assert f"<code>{field}</code>" in text
    kinds = description["paths"]["/v1/decide"]["post"]["requestBody"]["content"]
    assert set(kinds) == {"image/png", "image/jpeg", "multipart/form-data", "application/json"}
