"""A saved copy is whole, whoever saves meanwhile; and it is fetched from nobody who is not who he says he is."""

from __future__ import annotations

import hashlib
import json
import shutil
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from planrun.client.answer import OutputFile
from planrun.core.errors import StorageError
from planrun.storage.filesystem import FilesystemStore
from planrun.wiring import open_store
from tests.web.papers import Papers

FILM = bytes(range(256)) * 4096 * 3
SHA256 = hashlib.sha256(FILM).hexdigest()
KEY = f"default/jobs/j1/1-7/{SHA256}/film.mp4"


class Killed(BaseException):
    pass


class Doubled(FilesystemStore):
    """In the middle of its first copy the same is asked for again, by somebody who is killed as it begins to write."""

    again: Callable[[], None]
    gets = chunks = 0

    def get(self, key: str, target: Path, *, sha256: str, before_chunk: Callable[[], None] = lambda: None) -> None:
        self.gets += 1
        if self.gets == 2:
            target.write_bytes(b"")
            raise Killed
        super().get(key, target, sha256=sha256, before_chunk=self._count)

    def _count(self) -> None:
        self.chunks += 1
        if self.chunks == 2:
            with pytest.raises(Killed):
                self.again()


def test_who_saves_the_same_file_at_once_damages_no_copy(tmp_path: Path) -> None:
    store = Doubled(tmp_path / "store")
    (store.root / KEY).parent.mkdir(parents=True)
    (store.root / KEY).write_bytes(FILM)
    film = OutputFile(KEY, SHA256, len(FILM), None, store)
    target = tmp_path / "out" / "film.mp4"
    target.parent.mkdir()
    store.again = lambda: film.save(target)

    film.save(target)

    assert store.gets == 2
    assert target.read_bytes() == FILM
    assert list(target.parent.iterdir()) == [target]
    (tmp_path / "any").touch()
    assert target.stat().st_mode == (tmp_path / "any").stat().st_mode


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    film = OutputFile(KEY, SHA256, len(FILM), None, FilesystemStore(tmp_path))

    with pytest.raises(StorageError, match=r"nowhere/film.mp4 cannot be written: No such file"):
        film.save(tmp_path / "nowhere" / "film.mp4")


class Site(ThreadingHTTPServer):
    """Attributes:
    sends: Path → the place to look instead, or the bytes.
    tokens: What was sent as `authorization`, None where there was nothing.
    """

    def __init__(self, sends: dict[str, str | bytes], papers: Papers | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.sends = sends
        self.tokens: list[str | None] = []
        self.url = f"{'https' if papers else 'http'}://127.0.0.1:{self.server_port}"
        if papers is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*papers.sign("server"))
            self.socket = context.wrap_socket(self.socket, server_side=True)


class _Handler(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        self.server.tokens.append(self.headers["authorization"])
        found = self.server.sends[self.path.partition("?")[0]]
        body = found if isinstance(found, bytes) else b""
        self.send_response(200 if body else 307)
        self.send_header("content-length", str(len(body)))
        if isinstance(found, str):
            self.send_header("location", found)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(sends: dict[str, str | bytes], papers: Papers | None = None) -> Iterator[Site]:
    with Site(sends, papers) as site:
        thread = threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield site
        finally:
            site.shutdown()
            thread.join()


def orchestrator(bucket: Site, papers: Papers | None = None) -> AbstractContextManager[Site]:
    answer = {"outputs": {"film": {"sha256": SHA256, "href": "/v1/jobs/j1/outputs/film"}}}
    link = f"{bucket.url}/results/film.mp4?X-Amz-Signature=secret"
    return serving({"/v1/jobs/j1/result": json.dumps(answer).encode(), "/v1/jobs/j1/outputs/film": link}, papers)


@pytest.fixture
def papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Papers]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing")
    monkeypatch.setenv("PLANRUN_TOKEN", "the-token-of-a-client")
    monkeypatch.delenv("PLANRUN_CA", raising=False)
    return lambda name: Papers(tmp_path, name)


@pytest.mark.needs("openssl")
def test_a_bucket_that_cannot_prove_who_it_is_is_not_asked(papers: Callable[[str], Papers], tmp_path: Path) -> None:
    """An orchestrator without TLS says nothing of whom to trust elsewhere."""
    with (
        serving({"/results/film.mp4": FILM}, papers("unknown")) as bucket,
        orchestrator(bucket) as site,
        pytest.raises(
            StorageError, match=f"cannot be fetched from {bucket.url}: its certificate is of no CA"
        ) as raised,
    ):
        open_store(site.url).get(KEY, tmp_path / "film.mp4", sha256=SHA256)

    assert bucket.tokens == []
    assert "Signature" not in str(raised.value)
    assert not (tmp_path / "film.mp4").exists()


@pytest.mark.needs("openssl")
@pytest.mark.parametrize("of_bucket", ["private", "public"])
def test_a_bucket_may_be_of_the_systems_cas_or_of_the_one_that_is_named(
    papers: Callable[[str], Papers], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_bucket: str
) -> None:
    known = {name: papers(name) for name in ("private", "public")}
    monkeypatch.setenv("PLANRUN_CA", str(known["private"].ca))
    monkeypatch.setenv("SSL_CERT_FILE", str(known["public"].ca))
    with (
        serving({"/results/film.mp4": FILM}, known[of_bucket]) as bucket,
        orchestrator(bucket, known["private"]) as site,
    ):
        open_store(site.url).get(KEY, tmp_path / "film.mp4", sha256=SHA256)

    assert (tmp_path / "film.mp4").read_bytes() == FILM
    assert site.tokens == ["Bearer the-token-of-a-client"] * 2
    assert bucket.tokens == [None]
