"""The API over TLS, with a CA of the test's own; and what a client is told when the two ends do not fit."""

from __future__ import annotations

import shutil
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from planrun.core.errors import Invalid
from planrun.tls import client_context, server_context, trouble
from planrun.web import server
from planrun.web.server import HttpServer, address_of, open_socket
from tests.web.papers import Papers

pytestmark = pytest.mark.needs("openssl")


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing")
    return Papers(tmp_path_factory.mktemp("papers"))


def serve(url: str, tls: ssl.SSLContext | None) -> Iterator[str]:
    listening = open_socket("127.0.0.1:0", is_guarded=False, is_secure=True)
    http = HttpServer(url, listening, token="", tls=tls)
    http.start()
    try:
        yield address_of(listening, tls)
    finally:
        http.stop()


@pytest.fixture
def address(url: str, papers: Papers) -> Iterator[str]:
    yield from serve(url, server_context(*papers.sign("server")))


@pytest.fixture
def strict(url: str, papers: Papers) -> Iterator[str]:
    yield from serve(url, server_context(*papers.sign("server"), client_ca=papers.ca))


@pytest.fixture
def plain(url: str) -> Iterator[str]:
    yield from serve(url, None)


def get(address: str, **environment: str) -> int:
    with httpx2.Client(verify=client_context(environment), timeout=10) as http:
        return http.get(f"{address}v1/health").status_code


def refusal(address: str, **environment: str) -> str:
    with pytest.raises(httpx2.TransportError) as caught:
        get(address, **environment)
    said = trouble(caught.value)
    assert said is not None, caught.value
    return said


def test_a_client_that_trusts_its_ca_gets_in(address: str, papers: Papers) -> None:
    assert address.startswith("https://127.0.0.1:")
    assert get(address, PLANRUN_CA=str(papers.ca)) == 200
    assert get(address.replace("127.0.0.1", "localhost"), PLANRUN_CA=str(papers.ca)) == 200


def test_an_unknown_ca_is_said(address: str, tmp_path: Path) -> None:
    other = Papers(tmp_path, "other")

    assert "PLANRUN_CA" in refusal(address)
    assert "PLANRUN_CA" in refusal(address, PLANRUN_CA=str(other.ca))


def test_a_name_that_is_not_in_the_certificate_is_said(url: str, papers: Papers) -> None:
    for address in serve(url, server_context(*papers.sign("away", san="DNS:elsewhere.example"))):
        for name in ("127.0.0.1", "localhost"):
            assert "other names" in refusal(address.replace("127.0.0.1", name), PLANRUN_CA=str(papers.ca))


def test_tls_to_a_plain_port_is_said(plain: str) -> None:
    assert "plain HTTP" in refusal(plain.replace("http:", "https:"))


def test_plain_http_to_a_tls_port_gets_no_answer_and_the_server_goes_on(address: str, papers: Papers) -> None:
    with pytest.raises(httpx2.TransportError):
        httpx2.get(address.replace("https:", "http:"), timeout=10)

    assert get(address, PLANRUN_CA=str(papers.ca)) == 200


def test_who_does_not_shake_hands_is_let_go(url: str, papers: Papers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HANDSHAKE_S", 0.3)
    for address in serve(url, server_context(*papers.sign("server"))):
        port = int(address.rstrip("/").rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as silent:
            assert silent.recv(1) == b""


def test_where_callers_need_a_certificate_one_without_is_kept_out(strict: str, papers: Papers, tmp_path: Path) -> None:
    cert, key = papers.sign("client", san="DNS:box-7")
    foreign = Papers(tmp_path, "foreign").sign("client")
    ca = {"PLANRUN_CA": str(papers.ca)}

    assert get(strict, **ca, PLANRUN_CERT=str(cert), PLANRUN_KEY=str(key)) == 200
    # In TLS 1.3 the server may hang up before its reason is read.
    for shown in ({}, {"PLANRUN_CERT": str(foreign[0]), "PLANRUN_KEY": str(foreign[1])}):
        with pytest.raises(httpx2.TransportError) as caught:
            get(strict, **ca, **shown)
        assert "PLANRUN_CERT" in (trouble(caught.value) or "PLANRUN_CERT")


def test_files_that_cannot_be_right_are_said(papers: Papers, tmp_path: Path) -> None:
    cert, key = papers.sign("server")
    _, other_key = papers.sign("other")
    rubbish = tmp_path / "rubbish.pem"
    rubbish.write_text("no certificate")
    cases: list[tuple[str, Callable[[], object]]] = [
        ("--tls-cert .*No such file", lambda: server_context(tmp_path / "no.pem", key)),
        ("do not belong together", lambda: server_context(cert, other_key)),
        ("no PEM files", lambda: server_context(rubbish, key)),
        ("--tls-client-ca .*no certificate", lambda: server_context(cert, key, client_ca=rubbish)),
        ("PLANRUN_CA .*no certificate", lambda: client_context({"PLANRUN_CA": str(rubbish)})),
        ("PLANRUN_CA .*No such file", lambda: client_context({"PLANRUN_CA": str(tmp_path / "no.pem")})),
        ("both PLANRUN_CERT and PLANRUN_KEY", lambda: client_context({"PLANRUN_CERT": str(cert)})),
    ]
    for says, make in cases:
        with pytest.raises(Invalid, match=says):
            make()
