"""Whoever asks an orchestrator that is silent hears of it, and not for ever."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading

import pytest

from planrun.cli.exits import Exit
from planrun.ledger.wire import PROTOCOL_HEADER

pytestmark = pytest.mark.slow


def answer(connection: socket.socket) -> None:
    body = b'{"type":"unknown-job","title":"","status":404,"detail":"there is none"}'
    head = f"HTTP/1.1 404 x\r\ncontent-length: {len(body)}\r\n{PROTOCOL_HEADER}: 1\r\nconnection: close\r\n\r\n"
    connection.recv(65536)
    connection.sendall(head.encode() + body)
    connection.close()


def test_a_silent_orchestrator_is_named_once_while_it_is_asked_and_then_the_answer_is_given() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        where = f"http://127.0.0.1:{listening.getsockname()[1]}"
        asking = subprocess.Popen(
            [sys.executable, "-m", "planrun.cli", "why", "some-job", "--url", where],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert asking.stderr is not None
            connection, _ = listening.accept()
            said = asking.stderr.readline()  # while nothing is answered
            assert said.startswith(f"planrun: {where} gives no answer; asking on")
            threading.Thread(target=answer, args=(connection,)).start()
            assert asking.wait(timeout=30) == Exit.UNKNOWN
            assert "gives no answer" not in asking.stderr.read()
        finally:
            asking.kill()
            asking.communicate()
