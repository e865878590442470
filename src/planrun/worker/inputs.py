"""The inputs of one attempt as local files: linked, or fetched by the worker before the job starts.

The job process gets paths, never an address. What a name resolves to is judged when it is connected to
(`planrun.outgoing`), redirects as any other request. A fetch ends with the lease. Our own store is waited for.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from urllib.parse import urljoin

import httpx2

from planrun.core.errors import Invalid, Permanent, StorageError, Transient
from planrun.core.inputs import FETCHED, Rules, shown, split
from planrun.core.kinds import MIB
from planrun.outgoing import JudgedTransport
from planrun.storage.contract import Store
from planrun.worker.folder import AttemptFolder
from planrun.worker.store_wait import StoreWait

ALLOW_OPTION = "--allow-input"
CONNECT_S = 10.0
SILENCE_S = 30.0
CHUNK_BYTES = 1024 * 1024
REDIRECTS_MAX = 5
SAY_BYTES = 16 * MIB  # progress is said after so many
_BUSY = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True)
class Inputs:
    """How one worker comes by the inputs of its jobs.

    Attributes:
        bytes_max: Of all that is fetched for one attempt.
        disk_free_bytes_min: Always left free on the scratch disk.
    """

    rules: Rules
    store: Store
    bytes_max: int
    disk_free_bytes_min: int

    async def bring(
        self, given: Mapping[str, str], namespace: str, folder: AttemptFolder, store_wait: StoreWait, *, limit_s: float
    ) -> dict[str, Path]:
        """All of them, as local files under safe names.

        Args:
            limit_s: How long one may take that does not come from the fleet's own store.

        Raises:
            Permanent: One is not allowed, gone, refused or too large.
            Transient: One cannot be had now.
            LostLease, Drained: As `StoreWait.carry`.
        """
        folder.inputs.mkdir()
        fetching = Fetching(self, folder, store_wait)
        found = {}
        try:
            for name, uri in given.items():
                # The own store is no stranger: it ends its requests by itself, and where it is away it is waited for.
                async with asyncio.timeout(None if uri.startswith("s3:") else limit_s):
                    if uri.partition(":")[0] in FETCHED:
                        found[name] = await fetching.fetch(name, uri, namespace)
                    else:
                        found[name] = await asyncio.to_thread(self._link, name, uri, folder)
        except TimeoutError:
            raise Transient(f"input {name} was not there after {limit_s:g} s", code="input-unreachable") from None
        finally:
            fetching.is_over = True
        return found

    def _link(self, name: str, uri: str, folder: AttemptFolder) -> Path:
        return folder.link_input(name, self._local(name, uri))

    def _local(self, name: str, uri: str) -> Path:
        """Where a local file really lies.

        Raises:
            Permanent: Not in a folder from which files are taken.
        """
        real = Path(uri.removeprefix("file://")).resolve()
        for folder in self.rules.folders:
            if real.is_relative_to(Path(folder).resolve()):
                return real
        raise Permanent(
            f"input {name}: no file is taken from {real.parent}; to allow it: {ALLOW_OPTION} file:{real.parent}",
            code="input-forbidden",
        )


class Fetching:
    """What is fetched for one attempt.

    Attributes:
        is_over: Nobody waits for it any more: its threads end.
    """

    def __init__(self, inputs: Inputs, folder: AttemptFolder, store_wait: StoreWait) -> None:
        self._inputs = inputs
        self._folder = folder
        self._store_wait = store_wait
        self._bytes = 0
        self._said_bytes = 0
        self.is_over = False

    async def fetch(self, name: str, uri: str, namespace: str) -> Path:
        """One input, as a local file that nobody changes.

        Raises:
            Permanent, Transient, LostLease, Drained: As `Inputs.bring`.
        """
        parts = split(uri)
        target = self._folder.place_for(name, PurePosixPath(parts.path if parts else ""))
        self._say(name)
        if uri.startswith("s3:"):
            try:
                await self._store_wait.carry(partial(self._copy, name, uri, namespace, target))
            except StorageError as error:
                raise Transient(f"input {name}: {error}", code="input-unreachable") from None
        else:
            await self._download(name, uri, target)
        target.chmod(0o444)
        return target

    def _copy(self, name: str, uri: str, namespace: str, target: Path) -> None:
        stored = self._inputs.rules.stored(uri, namespace)
        if stored is None:
            raise Permanent(
                f"input {name}: {shown(uri)} is no result of namespace {namespace} in this fleet's own store; "
                "pass another object by a signed https: address",
                code="input-forbidden",
            )
        key, sha256 = stored
        store = self._inputs.store
        size = store.head(key)
        if size is None:
            raise Permanent(f"input {name}: {shown(uri)} is not kept any more", code="input-refused")
        self._make_room(name, size)
        store.get(key, target, sha256=sha256, before_chunk=self._go_on)
        self._bytes += size

    def _go_on(self) -> None:
        if self.is_over:
            raise Transient("nobody waits for the inputs any more", code="input-unreachable")

    async def _download(self, name: str, uri: str, target: Path) -> None:
        rules = self._inputs.rules
        transport = JudgedTransport(rules.addresses, option=f"{ALLOW_OPTION} {uri.partition(':')[0]}://HOST, for")
        timeout = httpx2.Timeout(SILENCE_S, connect=CONNECT_S)
        # As it is sent, so that its length is the one that was announced.
        headers = {"accept-encoding": "identity", "user-agent": "planrun"}
        try:
            async with httpx2.AsyncClient(transport=transport, timeout=timeout, headers=headers) as http:
                for _ in range(REDIRECTS_MAX + 1):
                    if not rules.allow(uri):
                        raise Permanent(
                            f"input {name}: this worker does not ask {shown(uri)}; to allow it: {ALLOW_OPTION}",
                            code="input-forbidden",
                        )
                    async with http.stream("GET", uri) as reply:
                        if not reply.has_redirect_location:
                            await self._save(name, uri, reply, target)
                            return
                        uri = _redirected(name, uri, reply.headers["location"])
        except Invalid as error:
            raise Permanent(f"input {name}: {error}", code="input-forbidden") from None
        except httpx2.InvalidURL:
            raise Permanent(f"input {name}: {shown(uri)} is no address", code="input-forbidden") from None
        except httpx2.HTTPError as error:
            why = f"{type(error).__name__}: {error}".rstrip(": ")
            raise Transient(f"input {name}: {shown(uri)} gives no answer ({why})", code="input-unreachable") from None
        raise Permanent(f"input {name}: more than {REDIRECTS_MAX} redirects", code="input-refused")

    async def _save(self, name: str, uri: str, reply: httpx2.Response, target: Path) -> None:
        status = reply.status_code
        if not 200 <= status < 300:
            words = f"input {name}: {shown(uri)} answers {status}"
            if 400 <= status < 500 and status not in _BUSY:
                raise Permanent(words, code="input-refused")
            raise Transient(words, code="input-unreachable")
        length = reply.headers.get("content-length", "")
        if length.isdecimal():
            self._make_room(name, int(length))
        with target.open("xb", buffering=0) as out:
            async for chunk in reply.aiter_raw(CHUNK_BYTES):
                self._make_room(name, len(chunk))
                await asyncio.to_thread(_write, out.fileno(), chunk)
                self._bytes += len(chunk)
                if self._bytes - self._said_bytes >= SAY_BYTES:
                    self._say(name)

    def _make_room(self, name: str, count: int) -> None:
        most = self._inputs.bytes_max
        if self._bytes + count > most:
            raise Permanent(f"input {name}: more than input_bytes_max = {most} bytes of inputs", code="input-too-large")
        disk = os.statvfs(self._folder.path)
        if disk.f_bavail * disk.f_frsize - count < self._inputs.disk_free_bytes_min:
            raise Transient(f"input {name}: no room for it on the scratch disk", code="input-disk")

    def _say(self, name: str) -> None:
        self._said_bytes = self._bytes
        self._store_wait.holding.say(None, f"fetching input {name}: {self._bytes // MIB} MiB")


def _redirected(name: str, uri: str, location: str) -> str:
    try:
        return urljoin(uri, location)
    except ValueError:
        raise Permanent(f"input {name}: {shown(uri)} redirects to what is no address", code="input-refused") from None


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
