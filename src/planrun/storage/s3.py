"""Results in a bucket of an S3-compatible store: immutable, and visible only when complete.

    <prefix>/<namespace>/jobs/<job>/<attempt>-<token>/<sha256>/<name>    an object
    <prefix>/_public/<namespace>/<name>                                  a copy under its public name

Recipe of a put: hash the local file → upload it, in parts if it is large, each with its checksum, and
hash what is sent → complete only if both digests are equal. A server shows an object when it is
complete, whole or not at all, so nothing needs to be staged.

What an upload leaves behind that was killed in between is shown by no listing. It is bounded by the
bucket's lifecycle rule AbortIncompleteMultipartUpload; any other end aborts it here. A zombie that
completes its upload after the collection makes an object that nobody names: the collector comes again.

Credentials and server come from the usual AWS_* variables, which the S3 client reads itself.
"""

from __future__ import annotations

import hashlib
import mimetypes
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store as Bucket

from planrun.config import ENDPOINT_VARIABLES
from planrun.core.errors import StorageError
from planrun.core.names import object_key
from planrun.storage.contract import Stored
from planrun.storage.local import chunks_of, in_words
from planrun.storage.rules import ask, check_key, check_prefix
from planrun.storage.s3_words import is_no_bucket, storage_error
from planrun.trip import trip

if TYPE_CHECKING:  # only in its stubs
    from obstore.store import S3Config

PART_BYTES_MIN = 8 * 1024 * 1024
PARTS_MAX = 10_000
PARTS_AT_ONCE_MAX = 2
AMAZON = "Amazon (AWS_ENDPOINT_URL names another server)"
TIMEOUT_S = 60.0  # for one request, so for one part
RETRY_S = 15.0
CONFLICTS_MAX = 5
PUBLIC = "_public"  # no namespace begins like this
_UNNAMEABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff\\]")  # some servers take a backslash for a slash


class S3Store:
    """A `Store` in a bucket. Any number of machines may use it at once."""

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        endpoint: str = "",
        access: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
        retry_s: float = RETRY_S,
    ) -> None:
        """
        Args:
            prefix: Where in the bucket, without slashes at its ends.
            endpoint: Address of the server; empty: Amazon's of the region; every error says which.
            access: Region and credentials by the names of AWS_* variables, before those of the environment.
            timeout_s: How long one request may take: a part of an upload, or a range of an object. Seconds.
            retry_s: So long a request is tried again before the store counts as away. Seconds.
        """
        server = urlsplit(endpoint)
        port = f":{server.port}" if server.port else ""
        self._where = f"bucket {bucket} at " + (f"{server.hostname}{port}" if endpoint else AMAZON)
        self._bucket = Bucket(
            bucket,
            prefix=prefix or None,
            config=_config(endpoint, access or {}),
            checksum_algorithm="SHA256",
            disable_bulk_delete=True,  # not every server knows that request
            client_options={"allow_http": True, "timeout": timedelta(seconds=timeout_s), "connect_timeout": "5s"},
            retry_config={
                "max_retries": 5,
                "retry_timeout": timedelta(seconds=retry_s),
                "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=3)},
            },
        )

    def __str__(self) -> str:
        return self._where

    def put(self, prefix: str, name: str, source: Path, *, may_go_on: Callable[[], bool]) -> Stored:
        """See `Store.put`. The file is read twice: its digest belongs to the key."""
        check_prefix(prefix)
        _check_s3_key(f"{prefix}{name}")
        trip("upload:begin")
        what = f"cannot store {name}"
        digest, size = hashlib.sha256(), 0
        with in_words(what, source.parent):
            for chunk in chunks_of(source, lambda: ask(may_go_on)):
                digest.update(chunk)
                size += len(chunk)
        stored = Stored(object_key(prefix, digest.hexdigest(), name), digest.hexdigest(), size)
        sent = _sent(source, stored, may_go_on)
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"  # for who follows a link
        with self._in_words(what):
            if size <= PART_BYTES_MIN:
                obstore.put(
                    self._bucket, stored.key, b"".join(sent), attributes={"Content-Type": kind}, use_multipart=False
                )
            else:
                obstore.put(
                    self._bucket,
                    stored.key,
                    sent,
                    attributes={"Content-Type": kind},
                    use_multipart=True,
                    chunk_size=max(PART_BYTES_MIN, -(-size // PARTS_MAX)),
                    max_concurrency=PARTS_AT_ONCE_MAX,
                )
        return stored

    def head(self, key: str) -> int | None:
        """See `Store.head`. A missing bucket looks like a missing object."""
        _check_s3_key(key)
        with self._in_words(f"cannot look at {key}"):
            try:
                return obstore.head(self._bucket, key)["size"]
            except FileNotFoundError:
                return None

    def get(self, key: str, target: Path, *, sha256: str, before_chunk: Callable[[], None] = lambda: None) -> None:
        """See `Store.get`. Nothing is left at `target` after an error."""
        size = self.head(key)
        what = f"cannot copy {key} to {target}"
        if size is None:
            raise StorageError(f"{what}: {self._where}: there is no such object")
        digest = hashlib.sha256()
        with in_words(what, target.parent):
            try:
                with target.open("wb", buffering=0) as out:
                    for start in range(0, size, PART_BYTES_MIN):
                        before_chunk()
                        data = self._range(what, key, start, min(PART_BYTES_MIN, size - start))
                        digest.update(data)
                        while data:
                            data = data[out.write(data) :]
                if digest.hexdigest() != sha256:
                    raise StorageError(
                        f"{key} is damaged: its digest is {digest.hexdigest()}, not {sha256}; restore it from a backup"
                    )
            except BaseException:
                target.unlink(missing_ok=True)
                raise

    def _range(self, what: str, key: str, start: int, length: int) -> memoryview:
        with self._in_words(what):
            return memoryview(obstore.get_range(self._bucket, key, start=start, length=length))

    def local_path(self, key: str) -> Path | None:
        """See `Store.local_path`. Never."""
        _check_s3_key(key)
        return None

    def put_if_absent(self, key: str, data: bytes) -> bytes:
        """See `Store.put_if_absent`. True where the server honours If-None-Match: `probe` finds out."""
        _check_s3_key(key)
        for _ in range(CONFLICTS_MAX):
            with self._in_words(f"cannot create {key}"):
                try:
                    obstore.put(self._bucket, key, data, mode="create")
                    return data
                except AlreadyExistsError:  # perhaps by a request of ours whose answer was lost
                    pass
            found = self.read(key)
            if found is not None:  # else there was a conflict with somebody who is not done
                return found
        raise StorageError(f"cannot create {key}: {self._where}: others are creating it; try again", is_away=True)

    def read(self, key: str) -> bytes | None:
        """See `Store.read`."""
        _check_s3_key(key)
        with self._in_words(f"cannot read {key}"):
            try:
                return obstore.get(self._bucket, key).bytes().to_bytes()
            except FileNotFoundError as error:
                if is_no_bucket(error):
                    raise
                return None

    def url_of(self, key: str, *, ttl_s: float) -> str | None:
        """See `Store.url_of`."""
        _check_s3_key(key)
        with self._in_words(f"cannot sign a link to {key}"):
            return obstore.sign(self._bucket, "GET", key, timedelta(seconds=ttl_s))

    def copy_public(self, key: str, name: str) -> bool:
        """See `Store.copy_public`. The server copies, to `_public/<name>`; servers take up to 5 GB for that."""
        _check_s3_key(key)
        _check_s3_key(name)
        with self._in_words(f"cannot publish {name}"):
            obstore.copy(self._bucket, key, f"{PUBLIC}/{name}")
        return True

    def delete(self, key: str) -> None:
        """Remove an object."""
        _check_s3_key(key)
        with self._in_words(f"cannot delete {key}"):
            try:
                obstore.delete(self._bucket, key)
            except FileNotFoundError as error:
                if is_no_bucket(error):
                    raise

    def keys(self, prefix: str) -> Iterator[str]:
        """See `Store.keys`. An empty prefix lists the whole store."""
        if prefix:
            check_prefix(prefix)
            _check_s3_key(prefix[:-1])
        with self._in_words(f"cannot list {prefix or 'the store'}"):
            for page in obstore.list(self._bucket, prefix=prefix or None):
                for found in page:
                    yield found["path"]

    @contextmanager
    def _in_words(self, what: str) -> Iterator[None]:
        try:
            yield
        except (BaseError, FileNotFoundError) as error:
            # Not chained: the client's own words could show an address with a password in it.
            raise storage_error(what, self._where, error) from None


def _sent(source: Path, stored: Stored, may_go_on: Callable[[], bool]) -> Iterator[bytes]:
    """The bytes to send. Ends only if the lease still holds, and they are those whose digest is in the key."""
    digest, count = hashlib.sha256(), 0
    with in_words(f"cannot store {source.name}", source.parent):
        for chunk in chunks_of(source, lambda: ask(may_go_on)):
            if count:
                trip("upload:chunk")
            digest.update(chunk)
            count += len(chunk)
            yield bytes(chunk)
    if digest.hexdigest() != stored.sha256:
        raise StorageError(f"{source} changed while it was stored: something still writes to it")
    trip("upload:before-complete")


def _check_s3_key(key: str) -> None:
    check_key(key)
    if _UNNAMEABLE.search(key):
        raise StorageError(
            f"{key!r} is no object key here: S3 takes no backslash and no control character; rename the file"
        )


def _config(endpoint: str, access: Mapping[str, str]) -> S3Config:
    told: S3Config = {"endpoint": endpoint} if endpoint else {}
    for name, value in access.items():
        if name not in ENDPOINT_VARIABLES:
            told[name.lower()] = value  # type: ignore[literal-required]
    return told
