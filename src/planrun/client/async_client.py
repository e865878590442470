"""All verbs of the client, async, over the port of the ledger."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Unpack

import msgspec

from planrun.client.arguments import check_seconds, check_text, timeout_ms
from planrun.client.aside import Aside
from planrun.client.content import Asked, Submit, SubmitOptions, ask, names_files
from planrun.client.handle import AsyncJobHandle
from planrun.client.living import find_dead
from planrun.client.waiting import Waiting
from planrun.config import file_of
from planrun.core.coverage import left_without
from planrun.core.drains import DrainRequest
from planrun.core.errors import (
    Invalid,
    LedgerBusy,
    LedgerUnavailable,
)
from planrun.core.life import ENDED, State
from planrun.core.messages import (
    CancelReply,
    CancelRequest,
    SubmitReply,
    SubmitRequest,
    WorkerRow,
)
from planrun.core.names import NAME_RULE, is_name
from planrun.core.pauses import PauseRequest
from planrun.orchestrator.archive import Archive
from planrun.orchestrator.collector import Collector
from planrun.orchestrator.retention import LOOK_EVERY_MS, Retention, in_words
from planrun.wiring import scratch_root

SLICE = 100  # jobs per transaction of a bulk submit: renewals get in between
SUBMIT_TIMEOUT_S = 30.0
DRY_RUN_MAX = 1_000  # of each: who wants to know what would go reads no more
_PAUSES_S = (0.05, 0.1, 0.25, 0.5, 1.0)


class AsyncClient(Waiting):
    """Submit jobs, wait for their answers, cancel them and look at them.

        async with AsyncClient("sqlite:///media.db") as planrun:
            job = await planrun.submit("preview", inputs={"upload": "in/42.mov"}, key="video-42/preview")
            answer = await job.wait(timeout_s=900)

    Every verb that takes a job takes its id, a request id that led to it, or the beginning of its id: at least six
    characters that no other id begins with. They are tried in this order.

    Args:
        url: Where planrun lives; None: PLANRUN_URL, else `sqlite:///planrun.db`.

    Raises (every verb):
        LedgerUnavailable: No definite answer; asking again is safe.
        LedgerUnusable: This file must not be opened; says why.
    """

    _aside: Aside | None = None

    def look_aside(self) -> None:
        """From now on, look at the files that submits name in threads: this loop also serves others, who would wait."""
        self._aside = self._aside or Aside()

    # --- asking for work ---

    async def submit(
        self, kind: str, *, timeout_s: float = SUBMIT_TIMEOUT_S, **options: Unpack[SubmitOptions]
    ) -> AsyncJobHandle:
        """Hand a job in.

        Args:
            kind: What to run.
            timeout_s: How long an unreachable ledger is asked again, always with the same request id.
            options: See `Submit`.

        Raises:
            Invalid: Something in the call cannot be right. Nothing was submitted.
            Conflict: The request id or key was used for other content. The first job is untouched.
            LedgerUnavailable: Still no answer; the text names the request id to try again with.
        """
        [handle] = await self.submit_many([Submit(kind, **options)], timeout_s=timeout_s)
        return handle

    async def submit_many(
        self, submits: Iterable[Submit], *, timeout_s: float = SUBMIT_TIMEOUT_S
    ) -> Sequence[AsyncJobHandle]:
        """Hand many jobs in, in slices of 100 so that running jobs keep their leases. All are checked first.

        Each slice is taken in whole or not at all. Submits that carry a `request_id` can simply be handed
        in again after an error.

        Args:
            timeout_s: For each slice, as in `submit`.

        Raises:
            Invalid, Conflict, LedgerUnavailable: As `submit`. Earlier slices have been taken in.
        """
        wall_ms = self._clock.now().wall_ms
        requests = []
        if not isinstance(submits, Iterable):
            raise Invalid(f"pass a list of Submit, not {submits!r:.80}")
        for submit in submits:
            if not isinstance(submit, Submit):
                raise Invalid(f"pass a Submit for each job, not {submit!r:.80}")
            asked = await self._asked(submit, wall_ms)
            requests.append(await self._admitted(asked))
        handles: list[AsyncJobHandle] = []
        for start in range(0, len(requests), SLICE):
            replies = await self._submit_slice(requests[start : start + SLICE], timeout_s)
            handles += [AsyncJobHandle(self, reply.job_id, reply.disposition) for reply in replies]
        return handles

    async def _asked(self, submit: Submit, wall_ms: int) -> Asked:
        look = partial(ask, submit, request_id=self._clock.new_id(), wall_ms=wall_ms)
        return look() if self._aside is None or not names_files(submit) else await self._aside.call(look)

    async def _admitted(self, asked: Asked) -> SubmitRequest:
        """The request, unless an input cannot be read and the ledger does not know the call yet."""
        request = asked.request
        if not asked.unreadable:
            return request
        name = (request.namespace, request.request_id)
        if await self._ledger.job(*name) is None and await self._ledger.archived(*name) is None:
            raise Invalid(asked.unreadable)
        return request

    async def _submit_slice(self, requests: Sequence[SubmitRequest], timeout_s: float) -> Sequence[SubmitReply]:
        until_ms = self._clock.boot_ms() + timeout_ms(timeout_s)
        certain = True  # every try so far was certainly not done
        tries = 0
        while True:
            try:
                return await self._ledger.submit(requests)
            except LedgerUnavailable as error:
                certain = certain and isinstance(error, LedgerBusy)
                pause_s = _PAUSES_S[min(tries, len(_PAUSES_S) - 1)]
                if self._clock.boot_ms() + pause_s * 1000 > until_ms:
                    text = f"{error}; {_again(requests)}"
                    if isinstance(error, LedgerBusy) and certain:
                        raise LedgerBusy(text, holder_pid=error.holder_pid) from error
                    raise LedgerUnavailable(text) from error
            await self._clock.sleep(pause_s)
            tries += 1

    async def cancel(self, job: str, *, why: str = "", who: str = "") -> CancelReply:
        """End a job for every caller, at once. An ended job stays as it is, and the reply says so.

        Raises:
            UnknownJob: No such job.
        """
        _check_words(who, why)
        row = await self.show(job)
        return await self._ledger.cancel(CancelRequest(namespace=row.namespace, job_id=row.job_id, who=who, why=why))

    async def retry(
        self, job: str, *, who: str = "", why: str = "", timeout_s: float = SUBMIT_TIMEOUT_S
    ) -> AsyncJobHandle:
        """Submit a failed or canceled job again: a new job with the same inputs, params, needs and priority.

        The old one stays as it ended. Its key goes along if no other job holds it by now. Deadline, delay and
        subscribers belonged to the old call. While that job is open, it is the only one.

        Args:
            who, why: For the history of both jobs.
            timeout_s: As in `submit`.

        Raises:
            UnknownJob: No such job.
            Invalid: It is open, or it finished; or an input is gone. Nothing was submitted.
            Conflict: It was retried before, and that job has not ended: names it. Nothing was submitted.
            LedgerUnavailable: Still no answer.
        """
        _check_words(who, why)
        old = await self.show(job)
        if old.state not in (State.FAILED, State.CANCELED):
            advice = "cancel it first" if old.state not in ENDED else "submit it anew, without its key, to run it again"
            raise Invalid(f"{old.job_id} is {old.state}; only failed or canceled jobs are retried: {advice}")
        submit = Submit(
            old.kind,
            version=old.version,
            inputs=old.inputs,
            params=old.params,
            key=old.key,
            namespace=old.namespace,
            needs=old.needs,
            priority=old.priority,
            max_attempts=old.max_attempts,
            who=who,
        )
        asked = await self._asked(submit, self._clock.now().wall_ms)
        request = msgspec.structs.replace(await self._admitted(asked), retry_of=old.job_id, why=why)
        [reply] = await self._submit_slice([request], timeout_s)
        return AsyncJobHandle(self, reply.job_id, reply.disposition)

    async def job(self, job: str, *, namespace: str | None = None) -> AsyncJobHandle:
        """The handle of a job that was submitted before.

        Args:
            job: Job id or request id.
            namespace: Where to look; None: everywhere.

        Raises:
            UnknownJob: No such job.
        """
        row = await self._row(job, namespace)
        return AsyncJobHandle(self, row.job_id, "known")

    # --- operating ---

    async def pause(self, *, kind: str = "", namespace: str = "", who: str = "", why: str = "") -> bool:
        """Start no more jobs of a set. What runs goes on, what waits keeps its place.

        Args:
            kind, namespace: Which jobs; empty: any.
            who, why: For the history.

        Returns:
            False if exactly this set was paused before; then that pause stays as it was.

        Raises:
            Invalid: Not a name.
        """
        return await self._ledger.pause(_set_of(kind, namespace, who, why))

    async def resume(self, *, kind: str = "", namespace: str = "", who: str = "", why: str = "") -> bool:
        """Let jobs start again. A pause of a wider or narrower set stays in force.

        Returns:
            False if exactly this set was not paused.

        Raises:
            Invalid: Not a name.
        """
        return await self._ledger.resume(_set_of(kind, namespace, who, why))

    async def set_rate(self, kind: str, per_s: float | None) -> None:
        """From now on offer at most so many jobs of a kind per second; None: as many as can be taken.

        Raises:
            Invalid: Not a name or a number, or nothing offers jobs here: only an orchestrator with a broker does.
        """
        if not is_name(kind) or (per_s is not None and not 0 <= per_s < math.inf):
            raise Invalid(
                f"rate of {kind!r:.80}: {per_s!r:.80}: name a kind ({NAME_RULE}), and jobs per second from 0 on"
            )
        await self._ledger.set_rate(kind, per_s)

    async def drain(self, worker: str = "", *, who: str = "", why: str = "", force: bool = False) -> Sequence[str]:
        """Let worker processes that live now run empty: they take no more jobs, finish what runs, and end.

        Args:
            worker: Name of the worker; empty: all.
            who, why: For the history.
            force: Although open jobs are then left without a worker.

        Returns:
            Names of those that took jobs until now.

        Raises:
            Invalid: No such worker lives; or open jobs would be left without one. Nothing was changed.
        """
        _check_words(who, why)
        chosen = await self._alive(worker)
        if not force:
            left = await self._left_without({row.incarnation for row in chosen})
            if left:
                more = f" (and {len(left) - 1} more such)" if len(left) > 1 else ""
                raise Invalid(f"{left[0]}{more}; or drain with --force")
        request = DrainRequest(incarnations=tuple(row.incarnation for row in chosen), who=who, why=why)
        return _names(chosen, await self._ledger.drain(request))

    async def undrain(self, worker: str = "", *, who: str = "", why: str = "") -> Sequence[str]:
        """Let drained workers take jobs again.

        Returns:
            Names of those that do; one that has begun to end cannot be called back.

        Raises:
            Invalid: No such worker lives.
        """
        _check_words(who, why)
        chosen = await self._alive(worker)
        request = DrainRequest(incarnations=tuple(row.incarnation for row in chosen), who=who, why=why)
        return _names(chosen, await self._ledger.undrain(request))

    async def _alive(self, name: str) -> Sequence[WorkerRow]:
        check_text("worker", name)
        workers = await self._ledger.workers()
        dead = await find_dead(workers, wall_ms=self._clock.now().wall_ms)
        alive = [row for row in workers if row.incarnation not in dead and row.state != "gone"]
        chosen = [row for row in alive if name in ("", row.name)]
        if not chosen:
            names = ", ".join(sorted({row.name for row in alive})) or "none"
            raise Invalid(f"no worker{f' {name}' if name else ''} lives; those that do: {names}")
        return chosen

    async def _left_without(self, incarnations: Collection[str]) -> Sequence[str]:
        """What would be wrong with the open jobs if these workers took no more, that is not wrong now."""
        open_jobs, workers = await self._ledger.open_jobs(), await self._ledger.workers()
        dead = await find_dead(workers, wall_ms=self._clock.now().wall_ms)
        return left_without(open_jobs, workers, incarnations, dead=dead)

    async def backup(self, path: str | Path) -> None:
        """Copy the ledger, consistent, while everything goes on; the copy is looked through before it counts.

        Results are not in it: copy the store afterwards.

        Raises:
            Invalid: There is a file already, or none can be made there; or the ledger is on another box.
            LedgerUnavailable: It failed, or the ledger is damaged; nothing was left behind.
        """
        check_text("path", str(path))
        file_of(self._url)  # a path of this box means nothing on another one
        await self._ledger.backup(str(path))

    async def collect(
        self, *, grace_s: float, scratch: Path | None = None, dry_run: bool = False, now: bool = False
    ) -> Sequence[str]:
        """Remove what was kept long enough, and what lost attempts left behind, by the ledger's word, as workers do.

        Args:
            grace_s: Objects of attempts that ended less than so many seconds ago stay.
            scratch: The workers' `--scratch`; None: beside the ledger.
            dry_run: Remove nothing.
            now: Do not wait until the wall clock is beyond doubt after it was stepped.

        Returns:
            What has gone, or would go at first: results, jobs, messages, ids, keys of objects and paths of folders.

        Raises:
            Invalid: Not a span of time; or the ledger is on another box, where this happens by itself.
            StorageError: Some of it could not be removed.
        """
        check_seconds("grace_s", grace_s)
        file_of(self._url)
        gone: list[str] = []
        root = scratch_root(self._place, scratch)
        collector = Collector(
            self._ledger, self._store, scratch=root, gc_grace_s=grace_s, dry_run=dry_run, tell=gone.append
        )
        retention = Retention(
            self._ledger,
            self._store,
            Archive(self._place.archive),
            keep=None,
            logs=self._place.logs,
            believe_clock=now,
            tell=gone.append,
        )
        if dry_run:
            await retention.is_held_up()  # says so
            gone += in_words(await self._ledger.stale(limit=DRY_RUN_MAX))
            await collector.tick(0)
            return gone
        before = -1
        while len(gone) > before:  # where a result has gone, its files go next, and then perhaps its job
            before = len(gone)
            while await retention.tick(0) < LOOK_EVERY_MS:
                pass
            while await collector.tick(0) == 0:
                pass
        return gone


def _names(workers: Sequence[WorkerRow], incarnations: Collection[str]) -> Sequence[str]:
    return [row.name for row in workers if row.incarnation in incarnations]


def _check_words(who: str, why: str) -> None:
    check_text("who", who)
    check_text("why", why)


def _set_of(kind: str, namespace: str, who: str, why: str) -> PauseRequest:
    for what, name in (("kind", kind), ("namespace", namespace)):
        check_text(what, name)
        if name and not is_name(name):
            raise Invalid(f"{what} {name!r}: use {NAME_RULE}")
    _check_words(who, why)
    return PauseRequest(kind=kind, namespace=namespace, who=who, why=why)


def _again(requests: Sequence[SubmitRequest]) -> str:
    others = f" (and {len(requests) - 1} more)" if len(requests) > 1 else ""
    return f"the same request_id may be tried again: {requests[0].request_id}{others}"
