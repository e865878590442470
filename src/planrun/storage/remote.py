"""The results of an orchestrator, as a client far away sees them: to be fetched, and nothing else."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import httpx2
import msgspec

from planrun.core.errors import PlanrunError, StorageError
from planrun.core.problems import Problem, error_of
from planrun.storage.contract import Stored
from planrun.tls import trouble

CONNECT_S = 5.0
SILENCE_S = 60.0
CHUNK_BYTES = 1024 * 1024


class RemoteStore:
    """A `Store` of which nothing can be had but copies of what a settled result names."""

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        tls: ssl.SSLContext | None = None,
        elsewhere: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        """
        Args:
            url: `http(s)://HOST:PORT` of the orchestrator.
            tls: Whom to trust at a `https:` address.
            elsewhere: Whom to trust where the orchestrator sends us, to a bucket say.
        """
        self._url = url
        self._tls = tls
        self._elsewhere = elsewhere
        self._headers = {"authorization": f"Bearer {token}"} if token else {}

    def get(self, key: str, target: Path, *, sha256: str, before_chunk: Callable[[], None] = lambda: None) -> None:
        """See `Store.get`."""
        job_id = key.partition("/jobs/")[2].partition("/")[0]
        verify = self._tls or self._url.startswith("https:")
        with _in_words(key, self._url, target), _client(verify, base_url=self._url) as http:
            href = self._find(http, job_id, sha256)
            with http.stream("GET", href, headers=self._headers) as reply:
                elsewhere = reply.next_request
                if elsewhere is None:
                    _check(reply, self._url)
                    _save(reply, target, key, sha256, before_chunk)
        if elsewhere is not None:
            link = elsewhere.url
            where = f"{link.scheme}://{link.netloc.decode()}"  # the rest of the link opens the file to anybody
            with (
                _in_words(key, where, target),
                _client(self._elsewhere(), follow_redirects=True) as http,
                http.stream("GET", link) as reply,
            ):
                _check(reply, where)
                _save(reply, target, key, sha256, before_chunk)

    def local_path(self, key: str) -> Path | None:
        """Never: it is elsewhere."""
        return None

    def url_of(self, key: str, *, ttl_s: float) -> str | None:
        """None: the orchestrator gives such addresses out, as it serves the file."""
        return None

    def put_if_absent(self, key: str, data: bytes) -> bytes:
        """See `Store.put_if_absent`."""
        self._refuse(key)

    def read(self, key: str) -> bytes | None:
        """See `Store.read`."""
        self._refuse(key)

    def copy_public(self, key: str, name: str) -> bool:
        """See `Store.copy_public`."""
        self._refuse(key)

    def head(self, key: str) -> int | None:
        """See `Store.head`."""
        self._refuse(key)

    def put(self, prefix: str, name: str, source: Path, *, may_go_on: Callable[[], bool]) -> Stored:
        """See `Store.put`."""
        self._refuse(prefix)

    def delete(self, key: str) -> None:
        """See `Store.delete`."""
        self._refuse(key)

    def keys(self, prefix: str) -> Iterator[str]:
        """See `Store.keys`."""
        self._refuse(prefix)

    def _find(self, http: httpx2.Client, job_id: str, sha256: str) -> str:
        reply = http.get(f"/v1/jobs/{job_id}/result", headers=self._headers)
        _check(reply, self._url)
        outputs = msgspec.json.decode(reply.content)["outputs"].values()
        for output in outputs:
            if output["sha256"] == sha256:
                return str(output["href"])
        raise StorageError(f"job {job_id} has no such output any more")

    def _refuse(self, what: str) -> NoReturn:
        raise StorageError(f"{what} is in the store of {self._url}: only its workers and the orchestrator get there")


@contextmanager
def _in_words(key: str, where: str, target: Path) -> Iterator[None]:
    try:
        yield
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise StorageError(
            f"{key} cannot be fetched from {where}: {trouble(error) or error or type(error).__name__}"
        ) from None
    except OSError as error:
        raise StorageError(f"cannot copy {key} to {target}: {error.strerror}") from None


def _client(verify: ssl.SSLContext | bool, *, base_url: str = "", follow_redirects: bool = False) -> httpx2.Client:
    timeout = httpx2.Timeout(SILENCE_S, connect=CONNECT_S)
    return httpx2.Client(base_url=base_url, timeout=timeout, verify=verify, follow_redirects=follow_redirects)


def _check(reply: httpx2.Response, where: str) -> None:
    if reply.is_success:
        return
    try:
        error = error_of(msgspec.json.decode(reply.read(), type=Problem))
    except msgspec.DecodeError:
        error = PlanrunError(f"it answered {reply.status_code}")
    raise StorageError(f"{where}: {error}")


def _save(reply: httpx2.Response, target: Path, key: str, sha256: str, before_chunk: Callable[[], None]) -> None:
    digest = hashlib.sha256()
    try:
        with target.open("wb") as out:
            for chunk in reply.iter_bytes(CHUNK_BYTES):
                before_chunk()
                digest.update(chunk)
                out.write(chunk)
        if digest.hexdigest() != sha256:
            raise StorageError(f"{key} came damaged, with digest {digest.hexdigest()}, not {sha256}; fetch it again")
    except BaseException:
        target.unlink(missing_ok=True)
        raise
