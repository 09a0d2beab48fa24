"""Who may ask: the key, the host, the origin; and floods of refusals."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from alu.serve.gate import AT_ONCE, Flood, is_loopback
from alu.serve.problems import Refused
from tests.serving import Brightness, Running, ask, picture, running

KEY = "a-key-of-sixteen-letters"


@pytest.fixture(scope="module")
def locked() -> Iterator[Running]:
    with running(Brightness, key=KEY) as found:
        yield found


@pytest.fixture(scope="module")
def unlocked() -> Iterator[Running]:
    with running(Brightness) as found:
        yield found


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer wrong", f"Basic {KEY}", f"Bearer {KEY}x", f"Bearer {KEY[:-1]}", f"Bearer\t{KEY}", KEY],
)  # fmt: skip
def test_without_the_key_nothing_is_told(locked: Running, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    for method, path in (("POST", "/v1/decide"), ("GET", "/v1/monitor"), ("GET", "/v1/model"), ("GET", "/metrics")):
        reply = ask(locked.port, method, path, picture() if method == "POST" else None, headers)
        assert (reply.status, reply.cause) == (401, "no-key")
        assert reply.headers["www-authenticate"].startswith("Bearer")
        assert KEY not in reply.body.decode()
    assert locked.service.batcher.engine.asked[4:] == []  # type: ignore[union-attr]


def test_with_the_key_and_where_none_is_needed(locked: Running) -> None:
    assert locked.ask("GET", "/v1/model").status == 200
    assert locked.ask("GET", "/v1/model", headers={"Authorization": f"bearer {KEY}"}).status == 200
    for path in ("/healthz", "/readyz", "/docs", "/openapi.json"):
        assert ask(locked.port, "GET", path).status == 200
    assert "Bearer $ALU_KEY" in ask(locked.port, "GET", "/docs").body.decode()
    assert locked.ask("GET", "/v1/model", headers={"Host": "pictures.example.org"}).status == 200


def test_the_key_is_compared_by_digest_in_constant_time(locked: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    import hmac

    compared: list[tuple[bytes, bytes]] = []
    whole = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda one, other: compared.append((one, other)) or whole(one, other))
    for guess in ("", "x", KEY[:-1], "x" * 500):
        assert ask(locked.port, "GET", "/v1/model", headers={"Authorization": f"Bearer {guess}"}).status == 401
    assert len(compared) == 4, "also where the key is missing"
    assert all(len(one) == len(other) == 32 for one, other in compared)


@pytest.mark.parametrize(
    "host", ["evil.example.org", "10.0.0.1:8000", "", "localhost.evil.org", "[::", "127.0.0.1.nip.io"]
)
def test_without_a_key_other_names_of_this_machine_are_refused(unlocked: Running, host: str) -> None:
    reply = unlocked.ask("GET", "/v1/model", headers={"Host": host})
    assert (reply.status, reply.cause) == (403, "other-origin")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.2:1", "[::1]:8000"])
def test_names_of_this_machine_are_taken(unlocked: Running, host: str) -> None:
    assert unlocked.ask("GET", "/v1/model", headers={"Host": host}).status == 200


def test_pages_of_other_sites_are_refused(unlocked: Running, locked: Running) -> None:
    for service in (unlocked, locked):
        for origin in ("http://evil.example.org", "null", "http://localhost:1"):
            reply = service.ask("POST", "/v1/monitor/reset", headers={"Origin": origin})
            assert (reply.status, reply.cause) == (403, "other-origin")
        own = {"Origin": f"http://127.0.0.1:{service.port}"}
        assert service.ask("POST", "/v1/monitor/reset", headers=own).status == 200


@pytest.mark.parametrize("given", ["x" * 65, "a b", "a\tb", "é", '"'])
def test_a_strange_request_number_is_replaced(unlocked: Running, given: str) -> None:
    reply = unlocked.ask("GET", "/healthz", headers={"X-Request-ID": given.encode("utf-8").decode("latin-1")})
    assert len(reply.headers["x-request-id"]) == 16


def test_refusals_are_told_at_once_until_there_are_many(unlocked: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unlocked.service.batcher, "pace", type("Full", (), {"wait": lambda *_: 1e9})())
    monkeypatch.setattr("alu.serve.gate.AT_ONCE", 3)
    monkeypatch.setattr("alu.serve.gate.HELD_BACK", held := 0.35)  # long enough to be told from a busy machine
    time.sleep(1.0 - time.monotonic() % 1.0)  # a second of its own
    times = []
    for _ in range(5):
        start = time.perf_counter()
        reply = unlocked.decide(picture())
        times.append(time.perf_counter() - start)
        assert (reply.status, reply.cause) == (503, "queue-full")
        assert int(reply.headers["retry-after"]) >= 1
    assert max(times[:3]) < held <= min(times[3:])


def test_a_flood_is_counted_by_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    flood, now = Flood(), 7.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    assert [flood.rising() for _ in range(AT_ONCE + 2)] == [False] * AT_ONCE + [True] * 2
    now = 8.0
    assert not flood.rising()


def test_loopback() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.9.9.9", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.0.1", "example.org", "", "127.0.0.1.evil.org")))


def test_every_refusal_says_what_it_is() -> None:
    refused = Refused("queue-full", "Later.", retry_after=3, more={"picture": 2})
    assert (b"retry-after", b"3") in refused.headers()
    assert b'"picture": 2' in refused.body("id")
