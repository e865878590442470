"""Whoever sends too much, too slowly or too often: said, where there is somebody to say it to, and the others go on."""

from __future__ import annotations

import json
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from planrun.web import intake
from planrun.web.limits import Connection, room_for
from tests.web.fuzzing import served

HEAD = b"POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
GET = b"GET /v1/health HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.fixture
def port(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(Connection, "headers_s", 0.3)
    monkeypatch.setattr(Connection, "connections_max", 4)
    monkeypatch.setattr(intake, "BODY_S", 0.3)
    with served(url) as address:
        yield int(address.rpartition(":")[2])


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def answer(connection: socket.socket) -> tuple[int, str]:
    """Status and slug."""
    with connection.makefile("rb") as file:
        status = int(file.readline().split()[1])
        length = None
        while (line := file.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        body = json.loads(file.read(length))
    return status, body.get("type", "")


@pytest.mark.parametrize("sent", [b"content-length: 1000\r\n\r\n{", b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n"])
def test_a_body_that_never_arrives_is_answered_408(port: int, sent: bytes) -> None:
    with connect(port) as slow:
        slow.sendall(HEAD + sent)
        assert answer(slow) == (408, "too-slow")
        assert slow.recv(1) == b""


def test_a_body_that_nobody_wants_is_not_waited_for(port: int) -> None:
    with connect(port) as slow:
        slow.sendall(b"POST /v1/nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{")
        assert answer(slow) == (404, "no-such-route")


@pytest.mark.parametrize("sent", [b"", b"GET /v1/heal", b"GET /v1/health HTTP/1.1\r\nhost: loc"])
def test_headers_that_never_arrive_end_the_connection(port: int, sent: bytes) -> None:
    for before in (b"", GET):
        with connect(port) as slow:
            if before:
                slow.sendall(before)
                assert answer(slow) == (200, "")
                if not sent:
                    continue  # kept for the next request
            slow.sendall(sent)
            assert slow.recv(1) == b""


@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"], ids=["without an end", "whole"])
@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\nx: ", b"GET /"], ids=["a value", "an address"])
def test_headers_that_are_too_large_are_refused(port: int, start: bytes, end: bytes) -> None:
    with connect(port) as loud:
        loud.sendall(start + b"x" * 100_000 + (b" HTTP/1.1" if start == b"GET /" and end else b"") + end)
        assert b" 400 " in loud.recv(1000)


def test_headers_in_pieces_are_counted_once(port: int) -> None:
    with connect(port) as slow:
        head = GET.removesuffix(b"\r\n") + b"x: " + b"x" * 20_000 + b"\r\n\r\n"
        for start in range(0, len(head), 5_000):
            slow.sendall(head[start : start + 5_000])
        assert answer(slow) == (200, "")
        slow.sendall(GET + GET)  # and two at once
        assert [answer(slow)[0]] == [200]


def test_the_rest_of_a_body_is_not_read_for_ever(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "DRAINED_BYTES_MAX", 1000)
    with connect(port) as loud:
        loud.sendall(b"POST /v1/nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n" + b"x" * 2000)
        assert answer(loud) == (404, "no-such-route")
        loud.sendall(b"x")
        assert loud.recv(1) == b""


@pytest.mark.parametrize("wanted", [b"h2c", b"websocket"])
def test_who_would_rather_speak_something_else_is_answered_in_http_1_1(port: int, wanted: bytes) -> None:
    with connect(port) as other:
        for _ in range(2):
            other.sendall(GET.removesuffix(b"\r\n") + b"connection: Upgrade\r\nupgrade: " + wanted + b"\r\n\r\n")
            assert answer(other) == (200, "")
    body = b'{"kind": "preview", "request_id": "r1"}'
    with connect(port) as other:
        other.sendall(
            HEAD + b"connection: Upgrade\r\nupgrade: " + wanted + b"\r\ncontent-length: %d\r\n\r\n" % len(body)
        )
        other.sendall(body)
        assert answer(other) == (201, "")


def test_nothing_but_empty_lines_ends_the_connection(port: int) -> None:
    with connect(port) as slow:
        slow.sendall(GET)
        assert answer(slow) == (200, "")
        slow.sendall(b"\r\n")
        assert slow.makefile("rb").read()[:12] in (b"", b"HTTP/1.1 400")


def test_one_connection_too_many_is_told_so_and_the_others_go_on(port: int) -> None:
    with ExitStack() as open_ones:
        held = [open_ones.enter_context(connect(port)) for _ in range(4)]
        for each in held:
            each.sendall(GET)
            assert answer(each) == (200, "")
        with connect(port) as another:
            assert answer(another) == (503, "too-many-connections")
        with connect(port) as another:
            assert b"planrun-protocol: 1\r\n" in another.makefile("rb").read()
        held[0].sendall(GET)
        assert answer(held[0]) == (200, "")


@pytest.mark.parametrize(("files", "room"), [(resource.RLIM_INFINITY, 4096), (65_536, 4096), (1024, 768), (100, 50)])
def test_no_more_connections_are_taken_than_can_be_open(monkeypatch: pytest.MonkeyPatch, files: int, room: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert room_for(4096) == room


def test_a_slow_answer_is_no_slow_request(port: int) -> None:
    with connect(port) as waiting:
        body = b'{"kind": "preview", "request_id": "r1"}'
        waiting.sendall(HEAD + b"content-length: %d\r\n\r\n" % len(body) + body)
        assert answer(waiting) == (201, "")
        waiting.sendall(b"GET /v1/jobs/r1/wait?timeout_s=1 HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert answer(waiting) == (202, "")
