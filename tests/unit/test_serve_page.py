"""The page's files, its pictures and its attacks, over real sockets."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from alu import data
from alu.defense import Defense
from alu.detectors import LogitPeak
from alu.purifiers import Blur
from alu.serve import page, playground
from alu.serve.defended import DefendedEngine
from tests.serving import Brightness, Reply, Running, picture, running
from tests.toys import Toy, toy_images


def toy_engine() -> DefendedEngine:
    defense = Defense(Toy(), Blur(0.5), LogitPeak(0.05)).calibrate(toy_images(60, seed=9))
    defense.classes = tuple(f"class {number}" for number in range(5))
    return DefendedEngine(defense, "toy")


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with running(toy_engine, playground=True) as found:
        yield found


def pixels() -> Any:
    return (toy_images(1)[0] * 255).round().to(torch.uint8)


def as_file(image: Any) -> str:
    file = io.BytesIO()
    shown = image.permute(1, 2, 0).numpy()
    Image.fromarray(shown[:, :, 0] if shown.shape[2] == 1 else shown).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def body(**changes: Any) -> dict[str, Any]:
    plain = {"picture": as_file(pixels()), "label": 0, "attack": "pgd", "eps": 16, "steps": 4, "seed": 3}
    return {**plain, **changes}


def attack(service: Running, given: Any) -> Reply:
    text = given if isinstance(given, bytes) else json.dumps(given).encode()
    return service.ask("POST", "/v1/attack", text, {"Content-Type": "application/json"})


def test_the_page_and_every_file_that_it_names_are_there_and_nothing_else(service: Running) -> None:
    reply = service.ask("GET", "/")
    assert (reply.status, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "script-src 'self'" in reply.headers["content-security-policy"]
    named = re.findall(r'"(/static/[^"]+)"', reply.body.decode())
    assert named
    inside = {f"/static/{name}" for name in page.STATIC}
    scripts = "".join((files("alu.serve") / "static" / name).read_text() for name in page.STATIC)
    imported = {f"/static/{name}" for name in re.findall(r'from "\./([^"]+)"', scripts)}
    assert imported <= inside
    for path in {*named, *inside}:
        assert service.ask("GET", path).status == 200, path
    for path in ("/static/index.html", "/static/../page.py", "/static/%2e%2e/page.py", "/static/nope.js"):
        assert service.ask("GET", path).status == 404, path


def test_every_attack_of_the_playground_is_described() -> None:
    assert set(page.ABOUT) == {*playground.OBLIVIOUS, *playground.ADAPTIVE, *playground.ON_CHECKS}


def test_an_attack_comes_back_as_it_was_made(service: Running) -> None:
    reply = attack(service, body())
    assert reply.status == 200, reply.body
    film = reply.json
    engine = service.service.batcher.engine
    assert isinstance(engine, DefendedEngine)
    image = pixels()[None].float() / 255
    shown = playground.show(engine.defense, image[0], 0, attack="pgd", eps=16 / 255, steps=4, seed=3)
    assert [frame["step"] for frame in film["frames"]] == [0, 1, 2, 3]
    assert film["logits"] == pytest.approx(shown.logits, abs=1e-4)
    sent = np.asarray(Image.open(io.BytesIO(base64.b64decode(film["picture"]))))
    wanted = (shown.picture * 255).round().byte().permute(1, 2, 0).numpy()
    assert np.array_equal(sent, wanted[:, :, 0] if wanted.shape[2] == 1 else wanted)
    assert film["answers"]["defense"]["label"] == shown.answers["defense"].label
    offered = service.ask("GET", "/v1/playground").json
    assert offered["on"] is True
    assert {one["name"] for one in offered["attacks"]} == set(playground.attacks_on(engine.defense))


@pytest.mark.parametrize(
    ("given", "cause", "words"),
    [
        (b"no json", "bad-request", "JSON"),
        (b"[" * 10_000, "bad-request", "JSON"),
        ([], "bad-request", "exactly"),
        ({"picture": ""}, "bad-request", "exactly"),
        (body(more=1), "bad-request", "exactly"),
        (body(label="0"), "bad-request", "label must be a whole number"),
        (body(steps=1.5), "bad-request", "steps must be a whole number"),
        (body(eps=True), "bad-request", "eps must be a whole number"),
        (body(seed=2**70), "bad-request", "seed"),
        (body(picture="%%%"), "bad-picture", "base64"),
        (body(picture=base64.b64encode(b"no picture").decode()), "bad-picture", "cannot be read as a picture"),
        (body(picture=base64.b64encode(picture(size=(9, 9))).decode()), "bad-picture", "pixels"),
        (body(attack="nuke"), "bad-request", "attack"),
        (body(steps=1_000), "bad-request", "1 to 100 steps"),
        (body(eps=0), "bad-request", "eps"),
        (body(label=-1), "bad-request", "class from 0"),
    ],
)
def test_wrong_requests_are_refused_with_a_sentence(service: Running, given: Any, cause: str, words: str) -> None:
    reply = attack(service, given)
    assert (reply.cause, 400 <= reply.status < 500) == (cause, True)
    assert re.search(words, reply.json["detail"]), reply.json
    assert service.service.intake.held == 0, "the room of the body is given back"


def test_only_few_attacks_may_wait(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "WAITING", 0)
    reply = attack(service, body())
    assert (reply.status, reply.cause) == (503, "queue-full")
    assert "retry-after" in reply.headers


def test_without_the_playground_nothing_can_be_attacked() -> None:
    with running(Brightness) as plain:
        assert plain.ask("GET", "/v1/playground").json == {"on": False, "attacks": []}
        assert attack(plain, body()).status == 404
        assert plain.ask("GET", "/v1/samples").json == {"samples": []}, "it answers other classes"


def test_samples_are_for_defences_of_the_same_classes() -> None:
    bundled = data.sample("test")
    found = page._samples(tuple(bundled.shape), tuple(bundled.classes))
    assert len(found) == page.SAMPLES
    assert [one["label"] for one in found[:10]] == list(range(10))
    first = np.asarray(Image.open(io.BytesIO(base64.b64decode(found[0]["picture"]))))
    assert np.array_equal(first, bundled.pixels[found[0]["number"]].permute(1, 2, 0).numpy())
    assert page._samples(tuple(bundled.shape), ("a", "b")) == []
    assert page._samples((1, 32, 32), tuple(bundled.classes)) == []
