"""A private planrun for one test: its ledger, its worker processes, and what must hold at the end."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import apsw

from planrun.config import place_of
from planrun.core.life import State
from planrun.core.messages import (
    AttemptRow,
    CancelReply,
    CancelRequest,
    EventRow,
    JobRow,
    Output,
    Result,
    SubmitRequest,
)
from planrun.core.names import digest
from planrun.ledger.contract import Ledger
from planrun.orchestrator.collector import Collector
from planrun.wiring import open_ledger, open_store
from planrun.worker.tree import look_at_all, marked

T = TypeVar("T")

ROOT = Path(__file__).parents[1]
READY_S = 60.0  # on a machine that has much else to do
STARTED = re.compile(r"(?P<job>[0-9a-f-]{36})/(?P<attempt>\d+) (?P<pid>\d+) (?P<at>[\d.]+)")


def boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def read_proc(pid: int, name: str) -> bytes:
    """A file of a process in /proc; empty once it has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def children_of(pid: int) -> list[int]:
    return [process.pid for process in look_at_all() if process.parent == pid and process.alive]


def working_folder(pid: int) -> str:
    """Empty once it has ended."""
    try:
        return str(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:
        return ""


@dataclass(frozen=True)
class Start:
    """One start of job code, as it noted it itself. `at` is boottime in seconds."""

    job_id: str
    attempt: int
    at: float


@dataclass(eq=False)
class WorkerProcess:
    """A worker in a process of its own; what it printed is in `log`."""

    process: subprocess.Popen[bytes]
    log: Path

    def signal(self, number: signal.Signals) -> float:
        """Send a signal; returns the boottime just before."""
        at = boottime()
        self.process.send_signal(number)
        return at

    def kill(self) -> float:
        at = self.signal(signal.SIGKILL)
        self.process.wait(10)
        return at

    def wait(self, timeout_s: float = 20) -> int:
        return self.process.wait(timeout_s)

    @property
    def text(self) -> str:
        return self.log.read_text()

    def launchers(self) -> list[int]:
        """Processes that guard its job trees."""
        return self._descendants(b"from planrun.worker.launcher import main")

    def job_mains(self) -> list[int]:
        """Main processes of its jobs."""
        return self._descendants(b"\0planrun.jobs.runner\0", but_not=b"planrun.worker.launcher")

    def _descendants(self, program: bytes, *, but_not: bytes = b"\0\0") -> list[int]:
        everybody = [process for process in look_at_all() if process.alive]
        family = {self.process.pid}
        while heirs := {process.pid for process in everybody if process.parent in family} - family:
            family |= heirs
        texts = {pid: read_proc(pid, "cmdline") for pid in family}
        return [pid for pid, text in texts.items() if program in text and but_not not in text]


@dataclass(eq=False)
class Lab:
    """Make one per test with an empty folder; `close` ends every process that it started."""

    folder: Path
    workers: list[WorkerProcess] = field(default_factory=list)
    _ledger: Ledger | None = None

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'lab.db'}"

    @property
    def place(self) -> Any:
        return place_of(self.url)

    @property
    def starts_file(self) -> Path:
        return self.folder / "starts"

    @property
    def ledger(self) -> Ledger:
        if self._ledger is None:
            self._ledger = open_ledger(self.url)
        return self._ledger

    # --- acting ---

    def start_worker(self, *, environment: dict[str, str] | None = None, **options: Any) -> WorkerProcess:
        """Start a worker; options are those of WorkerOptions."""
        log = self.folder / f"worker-{len(self.workers)}.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.worker_main", self.url, json.dumps(options)],
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        worker = WorkerProcess(process, log)
        self.workers.append(worker)
        return worker

    async def ready(self, count: int) -> None:
        """Wait until so many workers have registered as ready."""

        async def enough() -> bool:
            rows = await self.ledger.workers()
            return sum(row.state == "ready" for row in rows) >= count

        await self.until(enough, "workers are ready", timeout_s=READY_S)

    async def ready_as(self, worker: WorkerProcess) -> None:
        """Wait until this worker has registered."""

        async def known() -> bool:
            return any(row.pid == worker.process.pid for row in await self.ledger.workers())

        await self.until(known, f"{worker.log.name} is ready", timeout_s=READY_S)

    async def submit(self, kind: str, params: dict[str, Any] | None = None, **fields: Any) -> str:
        """Submit one job that notes its starts; returns its id."""
        (reply,) = await self.ledger.submit([self.request(kind, params or {}, **fields)])
        return reply.job_id

    def request(self, kind: str, params: dict[str, Any], **fields: Any) -> SubmitRequest:
        """For one job that notes its starts."""
        params = {"starts": str(self.starts_file), **params}
        content = digest([kind, params])
        return SubmitRequest(
            request_id=fields.pop("request_id", uuid.uuid4().hex),
            kind=kind,
            params=params,
            content_hash=content,
            request_hash=content,
            **fields,
        )

    async def cancel(self, job_id: str, **fields: Any) -> CancelReply:
        return await self.ledger.cancel(CancelRequest(namespace="default", job_id=job_id, **fields))

    # --- looking ---

    async def job(self, job_id: str) -> JobRow:
        row = await self.ledger.job(None, job_id)
        assert row is not None
        return row

    async def result(self, job_id: str) -> Result:
        result = await self.ledger.result(job_id)
        assert result is not None
        return result

    async def attempts(self, job_id: str) -> list[AttemptRow]:
        return await self.ledger.attempts(job_id)

    async def events(self, job_id: str) -> list[EventRow]:
        return await self.ledger.events(job_id)

    def starts(self, job_id: str | None = None) -> list[Start]:
        """Every start of job code so far, in order."""
        text = self.starts_file.read_text() if self.starts_file.exists() else ""
        found = [Start(m["job"], int(m["attempt"]), float(m["at"])) for m in STARTED.finditer(text)]
        return [start for start in found if job_id in (None, start.job_id)]

    async def started(self, job_id: str, attempt: int, *, timeout_s: float = 20) -> Start:
        """Wait until job code of that attempt runs."""

        async def found() -> Start | None:
            return next((start for start in self.starts(job_id) if start.attempt == attempt), None)

        return await self.until(found, f"attempt {attempt} starts", timeout_s=timeout_s)

    async def ended(self, *job_ids: str, timeout_s: float = 60) -> list[JobRow]:
        """Wait until jobs have ended."""

        async def all_ended() -> list[JobRow] | None:
            rows = [await self.job(job_id) for job_id in job_ids]
            return rows if all(row.ended_at_ms is not None for row in rows) else None

        return await self.until(all_ended, "jobs have ended", timeout_s=timeout_s, every_s=0.02)

    async def until(
        self, look: Callable[[], Awaitable[T | None]], what: str, *, timeout_s: float = 20, every_s: float = 0.01
    ) -> T:
        """Poll until something truthy is seen; fails with the workers' last words at the deadline."""
        deadline = time.monotonic() + timeout_s
        while not (seen := await look()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {timeout_s:g} s: {what}\n{self.last_words()}")
            await asyncio.sleep(every_s)
        return seen

    def last_words(self) -> str:
        return "\n".join(f"--- {worker.log.name}\n{worker.text[-2000:]}" for worker in self.workers)

    def stored(self) -> dict[str, Path]:
        """Every object in the store by key, unfinished uploads included."""
        root = self.place.store
        return {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}

    async def content(self, output: Output) -> bytes:
        """The bytes of a result's file."""
        data: bytes = (self.place.store / output.key).read_bytes()
        return data

    def scratch_left(self) -> list[Path]:
        """Folders of attempts that are still in scratch."""
        root: Path = self.place.scratch
        return [path for path in root.iterdir() if not path.name.startswith(".")] if root.exists() else []

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Look into the ledger's tables, past the port."""
        connection = apsw.Connection(str(self.place.ledger), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return list(connection.execute(query))
        finally:
            connection.close()

    def job_processes(self) -> list[int]:
        """Living processes that work in the scratch of an attempt, whoever their parents are."""
        return [
            process.pid
            for process in look_at_all()
            if process.alive and working_folder(process.pid).startswith(f"{self.place.scratch}/")
        ]

    def left_processes(self) -> list[int]:
        """Living processes of any tree of any worker of this lab, spare ones included."""
        incarnations = [incarnation for (incarnation,) in self.rows("SELECT incarnation FROM worker")]
        return [pid for incarnation in incarnations for pid in marked(f"{incarnation}.")]

    # --- answers ---

    def receiver(self, name: str = "app", *, code: int = 0, seconds: float = 0) -> str:
        """A route that keeps every copy of every answer as a file of its own, takes its time, exits with `code`."""
        folder = self.folder / f"received-{name}"
        folder.mkdir(exist_ok=True)
        return f"""command:sh -c 'f=$(mktemp "$0/XXXXXXXX"); cat > "$f"; sleep {seconds}; exit {code}' {folder}"""

    def received(self, name: str = "app") -> dict[str, list[str]]:
        """The whole copies that a receiver got, by message id. A sender that died left an empty one."""
        texts = [path.read_text() for path in (self.folder / f"received-{name}").iterdir()]
        found: dict[str, list[str]] = {}
        for text in filter(None, texts):
            found.setdefault(json.loads(text)["msg_id"], []).append(text)
        return found

    async def delivered(self, *, timeout_s: float = 40) -> None:
        """Wait until no answer is owed any more."""

        async def none_owed() -> bool:
            return self.rows("SELECT count(*) FROM outbox WHERE confirmed = 0") == [(0,)]

        await self.until(none_owed, "all answers are delivered", timeout_s=timeout_s, every_s=0.1)

    # --- what must hold ---

    async def check(self, *job_ids: str, subscribers: int = 0) -> None:
        """One visible result each, bytes as settled, one message per subscriber, no invariant broken."""
        assert await self.ledger.violations() == []
        for job_id in job_ids:
            result = await self.result(job_id)
            for output in result.outputs:
                assert hashlib.sha256(await self.content(output)).hexdigest() == output.sha256
                assert f"/{result.attempt}-{result.token:x}/" in output.key
            wins = [attempt for attempt in await self.attempts(job_id) if attempt.outcome == "success"]
            assert len(wins) == (result.state is State.FINISHED)

    async def check_answers(self, *receivers: str) -> None:
        """One message per subscriber, whose copies are all equal, and that says what the ledger says."""
        owed = dict(self.rows("SELECT msg_id, body FROM outbox"))
        asked = self.rows("SELECT 'result:' || job_id || ':' || route FROM subscriber")
        assert [(msg_id,) for msg_id in sorted(owed)] == sorted(asked)
        received = {msg_id: copies for name in receivers for msg_id, copies in self.received(name).items()}
        assert {msg_id: set(copies) for msg_id, copies in received.items()} == {m: {body} for m, body in owed.items()}
        for answer in [json.loads(body)["result"] for body in owed.values()]:
            assert answer["state"] == (await self.result(answer["job_id"])).state

    async def collected(self, *, timeout_s: float = 20) -> None:
        """Collect, with no grace, until scratch is empty and the store holds exactly what results name."""
        store = open_store(self.url)
        named = {
            output["key"]
            for (outputs,) in self.rows("SELECT outputs FROM result")
            for output in json.loads(outputs or "[]")
        }

        async def clean() -> bool:
            await Collector(self.ledger, store, scratch=self.place.scratch, gc_grace_s=0).tick(0)
            return not self.scratch_left() and set(self.stored()) == named

        await self.until(clean, "lost attempts are collected", timeout_s=timeout_s, every_s=0.2)

    async def scratch_empty(self, *, timeout_s: float = 60) -> None:
        async def empty() -> bool:
            return not self.scratch_left()

        await self.until(empty, f"scratch is empty: {self.scratch_left()}", timeout_s=timeout_s)

    async def close(self) -> None:
        for worker in self.workers:
            with suppress(ProcessLookupError):
                worker.process.send_signal(signal.SIGCONT)
            worker.process.kill()
        for worker in self.workers:
            worker.process.wait(10)
        if self._ledger is not None:
            await self._ledger.close()


def alive_with_mark(folder: Path, *, silent_s: float = 0.3) -> Sequence[Path]:
    """Files in a folder that something still appends to."""
    before = {path: path.stat().st_size for path in folder.iterdir()}
    time.sleep(silent_s)
    return [path for path, size in before.items() if path.stat().st_size != size]
