"""What an S3 server may answer that none of the real ones can be brought to, from a server that only says that."""

from __future__ import annotations

import shutil
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from deploy.local.s3 import free_port
from planrun.core.errors import StorageError
from planrun.storage.probe import probe
from planrun.storage.s3 import S3Store
from tests.contract.store_contract import PREFIX, yes
from tests.web.papers import Papers


class Saying(ThreadingHTTPServer):
    """Answers every request with one status and one S3 error code; counts them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.code, self.asked = 200, "", 0

    def store(self) -> S3Store:
        return S3Store("results", endpoint=f"http://127.0.0.1:{self.server_port}", retry_s=0.5)


class _Handler(BaseHTTPRequestHandler):
    server: Saying

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.asked += 1
        body = b"<Error><Code>%s</Code></Error>" % self.server.code.encode()
        self.send_response(self.server.status)
        self.send_header("content-length", str(len(body)))
        self.send_header("etag", '"0"')
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_DELETE = answer

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Saying]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-secret")
    with Saying() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize(
    ("status", "code", "words", "is_away"),
    [
        (403, "RequestTimeTooSkewed", "the clocks of this box and of the server differ too much", False),
        (403, "AccessDenied", "these credentials may not do that", False),
        (400, "ExpiredToken", "have expired", False),
        (400, "AuthorizationHeaderMalformed", "set AWS_REGION", False),
        (501, "NotImplemented", "use another S3 server", False),
        (503, "SlowDown", "it answered 503 SlowDown; it is overloaded or out of order", True),
        (500, "InternalError", "it answered 500 InternalError", True),
        (429, "TooManyRequests", "it answered 429", True),
        (418, "Teapot", "it answered 418 Teapot", False),
    ],
)
def test_each_answer_is_told_in_words_and_either_passes_by_itself_or_not(
    server: Saying, tmp_path: Path, status: int, code: str, words: str, is_away: bool
) -> None:
    server.status, server.code = status, code
    (tmp_path / "f").write_bytes(b"x")
    store = server.store()

    with pytest.raises(StorageError, match=words) as raised:
        store.put(PREFIX, "f", tmp_path / "f", may_go_on=yes)

    assert str(raised.value).startswith(f"cannot store f: bucket results at 127.0.0.1:{server.server_port}: ")
    assert raised.value.is_away is is_away
    assert server.asked > 1 or not is_away


def test_no_server_is_away_and_no_password_of_its_address_is_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-secret")
    port = free_port()
    store = S3Store("results", endpoint=f"http://me:my-password@127.0.0.1:{port}", retry_s=0.2)

    with pytest.raises(StorageError) as raised:
        store.read("a/b")

    assert raised.value.is_away
    assert str(raised.value) == (
        f"cannot read a/b: bucket results at 127.0.0.1:{port}: "
        "no connection; is it running, and is AWS_ENDPOINT_URL right?"
    )
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


@pytest.mark.parametrize("name", ["certificate.pdf", "redirects.json", "TimedOut.log", "169.254.169.254"])
def test_the_name_of_a_file_says_nothing_of_the_server(server: Saying, tmp_path: Path, name: str) -> None:
    server.status, server.code = 503, "SlowDown"
    (tmp_path / "f").write_bytes(b"x")

    with pytest.raises(StorageError, match="it answered 503 SlowDown") as raised:
        server.store().put(PREFIX, name, tmp_path / "f", may_go_on=yes)

    assert raised.value.is_away


@pytest.mark.parametrize("name", ["redirect", "InvalidCertificate", "TimedOut"])
def test_nor_where_no_server_answers(server: Saying, name: str) -> None:
    store = S3Store(f"{name.lower()}s", endpoint=f"http://127.0.0.1:{free_port()}", retry_s=0.1)

    with pytest.raises(StorageError, match="no connection") as raised:
        store.read(f"a/{name}")

    assert raised.value.is_away


def test_a_missing_object_is_no_missing_bucket_whatever_its_name(server: Saying) -> None:
    server.status, server.code = 404, "NoSuchKey"
    store = server.store()

    assert store.read("a/NoSuchBucket") is None
    store.delete("a/NoSuchBucket")

    server.code = "NoSuchBucket"
    with pytest.raises(StorageError, match="there is no such bucket"):
        store.read("a/b")
    with pytest.raises(StorageError, match="there is no such bucket"):
        store.delete("a/b")


@pytest.mark.needs("openssl")
def test_a_certificate_that_is_not_trusted_does_not_pass_by_itself(server: Saying, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*Papers(tmp_path).sign("server"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    store = S3Store("results", endpoint=f"https://127.0.0.1:{server.server_port}", retry_s=0.1)

    with pytest.raises(StorageError, match="its certificate is not trusted here") as raised:
        store.read("a/b")

    assert not raised.value.is_away


def test_a_store_that_overwrites_where_it_should_create_is_said_loudly(server: Saying) -> None:
    """It takes every PUT, and gives back nothing of it."""
    report = probe(server.store(), "p1")

    assert not report.creates_once
    assert any("OVERWRITES" in problem for problem in report.problems)


@pytest.mark.parametrize("name", ["a\nb", "a\\b", "a\x7fb", "\udcff"])
def test_a_name_that_s3_cannot_bear_is_refused_before_anything_is_sent(
    server: Saying, tmp_path: Path, name: str
) -> None:
    (tmp_path / "f").write_bytes(b"x")

    with pytest.raises(StorageError, match="rename the file"):
        server.store().put(PREFIX, name, tmp_path / "f", may_go_on=yes)

    assert server.asked == 0
