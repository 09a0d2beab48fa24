"""The server: slow senders, long headers, too many connections, and what is no HTTP at all."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator

import pytest

from alu.errors import AluError
from alu.serve.limits import Limits
from alu.serve.server import Joined, listen
from alu.serve.service import Settings
from tests.serving import Brightness, Running, picture, running, wait_for

LIMITS = Limits(receiving=0.4, headers=4_000, connections=6)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr("alu.serve.server.GRACE", 0.3)
    with running(Brightness, Settings(LIMITS)) as found:
        yield found


def connected(service: Running) -> socket.socket:
    return socket.create_connection(("127.0.0.1", service.port), timeout=10)


def received(connection: socket.socket) -> bytes:
    """Everything until the other side closes."""
    found = b""
    try:
        while chunk := connection.recv(65536):
            found += chunk
    except ConnectionResetError:
        pass
    return found


def test_a_body_that_never_ends_is_refused_and_the_connection_closed(service: Running) -> None:
    with connected(service) as slow:
        slow.sendall(
            b"POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: 900\r\n\r\nx"
        )
        start = time.monotonic()
        reply = received(slow)
        assert reply.startswith(b"HTTP/1.1 408 ")
        assert b'"cause": "slow-body"' in reply
        assert 0.3 < time.monotonic() - start < 5
    assert service.decide(picture()).status == 200
    assert service.service.intake.held == 0


@pytest.mark.parametrize(
    "beginning", [b"", b"POST /v1/dec", b"POST / HTTP/1.1\r\nHost: loc", b"GET /healthz HTTP/1.1\r\n"]
)
def test_a_header_that_never_ends_is_given_up(service: Running, beginning: bytes) -> None:
    with connected(service) as slow:
        slow.sendall(beginning)
        start = time.monotonic()
        assert received(slow) == b""
        assert 0.3 < time.monotonic() - start < 5


def test_drops_do_not_lengthen_the_time(service: Running) -> None:
    with connected(service) as slow:
        slow.sendall(b"POST /v1/decide HTTP/1.1\r\nHost: localhost\r\n")
        start = time.monotonic()
        try:
            while time.monotonic() - start < 5:
                slow.sendall(b"X: y\r\n")
                time.sleep(0.02)
        except OSError:
            pass
        assert time.monotonic() - start < 4


@pytest.mark.parametrize("chunks", [1, 40])
def test_a_long_header_is_refused(service: Running, chunks: int) -> None:
    with connected(service) as long:
        long.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        try:
            for number in range(chunks):
                long.sendall(f"X-{number}: {'h' * (5_000 // chunks)}\r\n".encode())
                time.sleep(0.002)
            long.sendall(b"\r\n")
        except OSError:
            pass
        reply = received(long)
        assert reply.startswith(b"HTTP/1.1 431 ") or not reply, "what was still on its way may reset the connection"
    assert service.ask("GET", "/healthz").status == 200


def test_a_long_address_is_refused(service: Running) -> None:
    with connected(service) as long:
        long.sendall(b"GET /" + b"a" * 5_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert received(long).startswith(b"HTTP/1.1 431 ")
    assert 'alu_refusals_total{cause="long-header"} 1.0' in service.ask("GET", "/metrics").body.decode()


def test_a_long_body_is_no_long_header(service: Running) -> None:
    # In one piece, and after another request on the same connection.
    body = picture() + b"\0" * 40_000
    request = (
        b"POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: %d\r\n\r\n"
        % len(body)
    )
    with connected(service) as long:
        for _ in range(3):
            long.sendall(request + body)
            reply = b""
            while not reply.endswith(b"}]}"):  # header and body may come apart
                piece = long.recv(65536)
                assert piece, reply
                reply += piece
            assert reply.startswith(b"HTTP/1.1 200 ")


def test_what_is_no_http_is_refused(service: Running) -> None:
    for noise in (b"\x16\x03\x01\x02\x00\x01\x00", b"hello\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\0" * 100):
        with connected(service) as odd:
            odd.sendall(noise)
            reply = received(odd)
            assert reply.startswith(b"HTTP/1.1 400 ")
            assert b"application/problem+json" in reply
            assert json.loads(reply.partition(b"\r\n\r\n")[2])["cause"] == "bad-http"
    with connected(service) as odd:
        odd.sendall(b"POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
        assert received(odd).startswith(b"HTTP/1.1 400 ")
    assert service.decide(picture()).status == 200


def test_connections_are_limited_and_come_back(service: Running) -> None:
    held = [connected(service) for _ in range(6)]
    time.sleep(0.1)
    start = time.monotonic()
    with connected(service) as more:
        assert received(more) == b""
    assert time.monotonic() - start < 4, "at once, not when it was silent for too long"
    for connection in held:
        connection.close()
    wait_for(lambda: service.ask("GET", "/healthz").status == 200)


def test_requests_one_after_the_other_on_one_connection(service: Running) -> None:
    body = picture(red=4)
    request = (
        b"POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: %d\r\n\r\n"
        % len(body)
    )
    with connected(service) as both:
        both.sendall((request + body) * 2)  # without waiting for the first answer
        found = b""
        while found.count(b'"class": "red"') < 2:
            found += both.recv(65536)
        assert found.count(b"HTTP/1.1 200 OK") == 2


def test_an_answer_does_not_wait_for_the_acknowledgement_of_another(service: Running) -> None:
    with connected(service) as kept:
        kept.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert kept.recv(65536).startswith(b"HTTP/1.1 200 ")
        (accepted,) = service.server.server_state.connections
        held = accepted.transport.get_extra_info("socket")
        # On loopback no time shows it: everything is acknowledged at once.
        assert held.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


class Wire(asyncio.Transport):
    """Keeps what is sent, call by call."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent.append(bytes(data))

    def close(self) -> None:
        self.sent.append(b"closed")

    def is_closing(self) -> bool:
        return b"closed" in self.sent


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ([b"HTTP/1.1 200 OK\r\n\r\n", b"body", b"more"], [b"HTTP/1.1 200 OK\r\n\r\nbody", b"more"]),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], [b"HTTP/1.1 204 No Content\r\n\r\n"]),
        ([b"HTTP/1.1 400 Bad\r\n\r\n{}"], [b"HTTP/1.1 400 Bad\r\n\r\n{}"]),
        ([b"HTTP/1.1 200 OK\r\n\r\n", None], [b"HTTP/1.1 200 OK\r\n\r\n", b"closed"]),
    ],
)
def test_header_and_body_are_sent_together_and_nothing_is_kept(written: list[bytes | None], sent: list[bytes]) -> None:
    async def play() -> list[bytes]:
        wire = Wire()
        joined = Joined(wire, asyncio.get_running_loop())
        for data in written:
            joined.close() if data is None else joined.write(data)
        await asyncio.sleep(0)
        assert joined.is_closing() == (None in written), "what it does not change is the transport's own"
        return wire.sent

    assert asyncio.run(play()) == sent


def test_a_place_that_is_taken_or_not_there_is_one_sentence() -> None:
    with listen("127.0.0.1", 0) as taken, pytest.raises(AluError, match=r"Cannot listen on 127\.0\.0\.1 port"):
        listen("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(AluError, match="Choose another --port or --host"):
        listen("192.0.2.1", 0)
    with pytest.raises(AluError, match="Cannot listen on no.such.host.invalid"):
        listen("no.such.host.invalid", 0)
