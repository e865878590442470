"""The client for programs without an event loop, over the async one.

A call that only asks something of the ledger runs its coroutine on the calling thread; one that waits for
others runs it in one background thread.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from planrun.client.answer import Answer
from planrun.client.async_client import SUBMIT_TIMEOUT_S, AsyncClient
from planrun.client.content import Submit, SubmitOptions
from planrun.client.handle import AsyncJobHandle
from planrun.client.joblog import LogPart
from planrun.client.looking import JobPage
from planrun.client.waiting import PROGRESS_EVERY_S, Progress
from planrun.core.coverage import Coverage
from planrun.core.drains import Drain
from planrun.core.errors import PlanrunError
from planrun.core.keeping import Owed
from planrun.core.life import State
from planrun.core.messages import AttemptRow, CancelReply, EventRow, JobRow
from planrun.core.pauses import Pause
from planrun.core.presence import Presence
from planrun.core.printed import LogPiece
from planrun.core.why import Why

T = TypeVar("T")


class Client:
    """Submit jobs, wait for their answers, cancel them and look at them.

        with Client("sqlite:///media.db") as planrun:
            job = planrun.submit("preview", inputs={"upload": "in/42.mov"}, key="video-42/preview")
            answer = job.wait(timeout_s=900)

    Threads may share it. It works in a thread whose own event loop runs, and blocks that loop. A forked
    child needs a client of its own. Meanings, units and errors of the verbs are those of `AsyncClient`.

    Args:
        url: Where planrun lives; None: PLANRUN_URL, else `sqlite:///planrun.db`.
    """

    def __init__(self, url: str | None = None) -> None:
        self._start(AsyncClient(url))

    @classmethod
    def over(cls, client: AsyncClient) -> Self:
        """A facade over this client, which is opened, if need be, and used in the background thread alone."""
        facade = cls.__new__(cls)
        facade._start(client)
        return facade

    def _start(self, client: AsyncClient) -> None:
        self._client = client
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._closing = threading.Lock()
        self._closed = False
        self._waiting: set[concurrent.futures.Future[Any]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="planrun-client", daemon=True)
        self._thread.start()
        try:
            self._run(client.__aenter__)
        except BaseException:
            self.close()
            raise
        self._here = client.blocking()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the ledger and end the thread. Calls that still wait end with an error. A second call does nothing."""
        with self._closing:
            if self._closed or os.getpid() != self._pid:
                return
            self._closed = True
        for future in list(self._waiting):
            future.cancel()
        asyncio.run_coroutine_threadsafe(self._client.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def submit(self, kind: str, *, timeout_s: float = SUBMIT_TIMEOUT_S, **options: Unpack[SubmitOptions]) -> JobHandle:
        """See `AsyncClient.submit`."""
        return self._held(self._ask(lambda client: client.submit(kind, timeout_s=timeout_s, **options)))

    def submit_many(self, submits: Iterable[Submit], *, timeout_s: float = SUBMIT_TIMEOUT_S) -> Sequence[JobHandle]:
        """See `AsyncClient.submit_many`."""
        submits = tuple(submits) if isinstance(submits, Iterable) else submits
        return [self._held(job) for job in self._ask(lambda client: client.submit_many(submits, timeout_s=timeout_s))]

    def cancel(self, job: str, *, why: str = "", who: str = "") -> CancelReply:
        """See `AsyncClient.cancel`."""
        return self._ask(lambda client: client.cancel(job, why=why, who=who))

    def retry(self, job: str, *, who: str = "", why: str = "", timeout_s: float = SUBMIT_TIMEOUT_S) -> JobHandle:
        """See `AsyncClient.retry`."""
        return self._held(self._run(lambda: self._client.retry(job, who=who, why=why, timeout_s=timeout_s)))

    def job(self, job: str, *, namespace: str | None = None) -> JobHandle:
        """See `AsyncClient.job`."""
        return self._held(self._run(lambda: self._client.job(job, namespace=namespace)))

    def stream(
        self, job: str, *, timeout_s: float | None = None, every_s: float = PROGRESS_EVERY_S
    ) -> Iterator[Progress]:
        """See `AsyncClient.stream`."""
        return self._each(lambda: self._client.stream(job, timeout_s=timeout_s, every_s=every_s))

    def follow_events(self, job: str) -> Iterator[EventRow]:
        """See `AsyncClient.follow_events`."""
        return self._each(lambda: self._client.follow_events(job))

    def follow_logs(self, job: str, *, attempt: int | None = None) -> Iterator[LogPart]:
        """See `AsyncClient.follow_logs`."""
        return self._each(lambda: self._client.follow_logs(job, attempt=attempt))

    def wait(self, job: str, *, timeout_s: float | None = None) -> Answer:
        """See `AsyncClient.wait`."""
        return self._run(lambda: self._client.wait(job, timeout_s=timeout_s))

    def result(self, job: str) -> Answer:
        """See `AsyncClient.result`."""
        return self._run(lambda: self._client.result(job))

    def show(self, job: str) -> JobRow:
        """See `AsyncClient.show`."""
        return self._ask(lambda client: client.show(job))

    def list(
        self,
        *,
        namespace: str | None = None,
        namespaces: Sequence[str] | None = None,
        kind: str | None = None,
        version: str | None = None,
        state: State | str | None = None,
        key: str | None = None,
        since_s: float | None = None,
        limit: int = 50,
        before: int | None = None,
    ) -> JobPage:
        """See `AsyncClient.list`."""
        return self._run(
            lambda: self._client.list(
                namespace=namespace,
                namespaces=namespaces,
                kind=kind,
                version=version,
                state=state,
                key=key,
                since_s=since_s,
                limit=limit,
                before=before,
            )
        )

    def events(self, job: str) -> Sequence[EventRow]:
        """See `AsyncClient.events`."""
        return self._run(lambda: self._client.events(job))

    def attempts(self, job: str) -> Sequence[AttemptRow]:
        """See `AsyncClient.attempts`."""
        return self._run(lambda: self._client.attempts(job))

    def logs(self, job: str, *, attempt: int | None = None) -> str:
        """See `AsyncClient.logs`."""
        return self._run(lambda: self._client.logs(job, attempt=attempt))

    def log_piece(self, job: str, *, attempt: int | None = None, after: int = 0) -> LogPiece:
        """See `AsyncClient.log_piece`."""
        return self._run(lambda: self._client.log_piece(job, attempt=attempt, after=after))

    def why(self, job: str) -> Why:
        """See `AsyncClient.why`."""
        return self._run(lambda: self._client.why(job))

    def kinds(self) -> Sequence[Coverage]:
        """See `AsyncClient.kinds`."""
        return self._run(self._client.kinds)

    def counts(self, *, namespace: str | None = None) -> dict[str, int]:
        """See `AsyncClient.counts`."""
        return self._run(lambda: self._client.counts(namespace=namespace))

    def owed(self) -> Owed | None:
        """See `AsyncClient.owed`."""
        return self._run(self._client.owed)

    def violations(self) -> Sequence[str]:
        """See `AsyncClient.violations`."""
        return self._run(self._client.violations)

    def workers(self) -> Sequence[Presence]:
        """See `AsyncClient.workers`."""
        return self._run(self._client.workers)

    def rates(self) -> dict[str, float]:
        """See `AsyncClient.rates`."""
        return self._run(self._client.rates)

    def set_rate(self, kind: str, per_s: float | None) -> None:
        """See `AsyncClient.set_rate`."""
        self._run(lambda: self._client.set_rate(kind, per_s))

    def pauses(self, *, limit: int | None = None) -> Sequence[Pause]:
        """See `AsyncClient.pauses`."""
        return self._run(lambda: self._client.pauses(limit=limit))

    def pause(self, *, kind: str = "", namespace: str = "", who: str = "", why: str = "") -> bool:
        """See `AsyncClient.pause`."""
        return self._run(lambda: self._client.pause(kind=kind, namespace=namespace, who=who, why=why))

    def resume(self, *, kind: str = "", namespace: str = "", who: str = "", why: str = "") -> bool:
        """See `AsyncClient.resume`."""
        return self._run(lambda: self._client.resume(kind=kind, namespace=namespace, who=who, why=why))

    def drain(self, worker: str = "", *, who: str = "", why: str = "", force: bool = False) -> Sequence[str]:
        """See `AsyncClient.drain`."""
        return self._run(lambda: self._client.drain(worker, who=who, why=why, force=force))

    def undrain(self, worker: str = "", *, who: str = "", why: str = "") -> Sequence[str]:
        """See `AsyncClient.undrain`."""
        return self._run(lambda: self._client.undrain(worker, who=who, why=why))

    def drains(self, *, limit: int = 50) -> Sequence[Drain]:
        """See `AsyncClient.drains`."""
        return self._run(lambda: self._client.drains(limit=limit))

    def ended(self, *, within_s: float) -> dict[str, int]:
        """See `AsyncClient.ended`."""
        return self._run(lambda: self._client.ended(within_s=within_s))

    def backup(self, path: str | Path) -> None:
        """See `AsyncClient.backup`."""
        self._run(lambda: self._client.backup(path))

    def collect(
        self, *, grace_s: float, scratch: Path | None = None, dry_run: bool = False, now: bool = False
    ) -> Sequence[str]:
        """See `AsyncClient.collect`."""
        return self._run(lambda: self._client.collect(grace_s=grace_s, scratch=scratch, dry_run=dry_run, now=now))

    def _held(self, job: AsyncJobHandle) -> JobHandle:
        return JobHandle(self, job.id, job.disposition)

    def _each(self, follow: Callable[[], AsyncIterator[T]]) -> Iterator[T]:
        following = follow()
        try:
            while (found := self._run(lambda: _next(following))) is not None:
                yield found
        finally:
            with suppress(PlanrunError):  # the client was closed meanwhile
                self._run(lambda: _end(following))

    def _ask(self, verb: Callable[[AsyncClient], Coroutine[Any, Any, T]]) -> T:
        """Run a verb that waits for the ledger alone, here if it can be."""
        here = self._here
        if here is None or self._closed or os.getpid() != self._pid:
            return self._run(lambda: verb(self._client))
        asking = verb(here)
        try:
            asking.send(None)
        except StopIteration as done:
            answer: T = done.value
            return answer
        finally:
            asking.close()
        raise AssertionError("a verb over a blocking ledger has suspended")

    def _run(self, verb: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if os.getpid() != self._pid:
            raise PlanrunError("this client was opened before a fork; open a new Client in the child process")
        with self._closing:
            if self._closed:
                raise PlanrunError("this client is closed; open a new one")
            future = asyncio.run_coroutine_threadsafe(verb(), self._loop)
            self._waiting.add(future)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise PlanrunError("this client was closed while the call was waiting") from None
        except BaseException:
            future.cancel()  # Ctrl-C in the calling thread: do not go on behind its back
            raise
        finally:
            self._waiting.discard(future)


async def _end(following: AsyncIterator[Any]) -> None:
    if isinstance(following, AsyncGenerator):
        await following.aclose()


async def _next(following: AsyncIterator[T]) -> T | None:
    return await anext(following, None)


@dataclass(frozen=True, slots=True)
class JobHandle:
    """One job, held by the application.

    Attributes:
        id: The job's id: all that a caller has to keep.
        disposition: What the submit did: `new`, `repeated` (same request), `joined` (same key, still open), `answered`
            (stored result); `known` if it was only looked up.
    """

    client: Client
    id: str
    disposition: str

    def wait(self, *, timeout_s: float | None = None) -> Answer:
        """See `AsyncClient.wait`."""
        return self.client.wait(self.id, timeout_s=timeout_s)

    def stream(self, *, timeout_s: float | None = None, every_s: float = PROGRESS_EVERY_S) -> Iterator[Progress]:
        """See `AsyncClient.stream`."""
        return self.client.stream(self.id, timeout_s=timeout_s, every_s=every_s)

    def result(self) -> Answer:
        """See `AsyncClient.result`."""
        return self.client.result(self.id)

    def cancel(self, *, why: str = "", who: str = "") -> CancelReply:
        """See `AsyncClient.cancel`."""
        return self.client.cancel(self.id, why=why, who=who)

    def retry(self, *, why: str = "", who: str = "") -> JobHandle:
        """See `AsyncClient.retry`."""
        return self.client.retry(self.id, why=why, who=who)

    def why(self) -> Why:
        """See `AsyncClient.why`."""
        return self.client.why(self.id)

    def show(self) -> JobRow:
        """See `AsyncClient.show`."""
        return self.client.show(self.id)

    def events(self) -> Sequence[EventRow]:
        """See `AsyncClient.events`."""
        return self.client.events(self.id)

    def attempts(self) -> Sequence[AttemptRow]:
        """See `AsyncClient.attempts`."""
        return self.client.attempts(self.id)

    def logs(self, *, attempt: int | None = None) -> str:
        """See `AsyncClient.logs`."""
        return self.client.logs(self.id, attempt=attempt)
