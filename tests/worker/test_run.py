"""One attempt's process, from start to death: who ends it, and what of its word counts."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from planrun.core.errors import LostLease
from planrun.core.kinds import MIB, Kind
from planrun.core.lease import HeldLease
from planrun.core.life import Outcome
from planrun.core.limits import Vitals
from planrun.core.messages import Checkpoint, CheckpointRequest, Granted, Lease, Standing
from planrun.ledger.contract import Ledger
from planrun.worker import run as run_module
from planrun.worker.checkpoints import CheckpointUpload
from planrun.worker.folder import AttemptFolder
from planrun.worker.gates import Reservation
from planrun.worker.happenings import CheckpointReady, Done, Exited, Failed, Happening, Nudge, Stopped
from planrun.worker.keeper import Holding
from planrun.worker.options import WorkerOptions
from planrun.worker.orders import Orders
from planrun.worker.pool import Pool
from planrun.worker.run import Ran, Run
from planrun.worker.taking import Successor
from tests.contract.manual_clock import ManualClock

pytestmark = pytest.mark.anyio

KIND = Kind(kind="render", version="v1", module="m", output_bytes_max=MIB, memory_bytes_max=MIB, resumable="steps-1")
LEASE = Lease(job_id="j", attempt=1, token=1)
ENDED = Exited(code=0)
SILENT_MAX = 5  # times that a script is asked for more, a second each: a run that goes on for ever fails its test

Step = Happening | Callable[[], Awaitable[Any] | None]


class Scripted:
    """A process that says one thing after another; what can be called is done when its turn comes."""

    has_ended = False

    def __init__(self) -> None:
        self.script: list[Step] = []
        self.did: list[str] = []
        self._nudged, self._answered = asyncio.Event(), asyncio.Event()
        self._silent = 0

    def run(self, kind: Kind, **_: Any) -> None:
        self.did.append("run")

    async def next(self) -> Happening:
        if not self.script:
            self._silent += 1
            assert self._silent <= SILENT_MAX, self.did
            await self._nudged.wait()
            self._nudged.clear()
            return Nudge()
        step = self.script[0]
        if callable(step):
            doing = step()
            if doing is not None:
                await doing
        self.script.pop(0)
        return Nudge() if callable(step) else step

    def nudge(self) -> None:
        self._nudged.set()

    async def answered(self, count: int = 1) -> None:
        """Wait until so many checkpoints were answered."""
        while sum(each.startswith("checkpoint") for each in self.did) < count:
            self._answered.clear()
            await self._answered.wait()

    def ask_stop(self) -> None:
        self.did.append("ask_stop")

    def answer_checkpoint(self, seq: int, *, taken: bool, why: str = "") -> None:
        self.did.append(f"checkpoint {seq} {'taken' if taken else why}")
        self._answered.set()

    async def kill(self) -> Exited:
        self.did.append("kill")
        return Exited(signal=9, killed=True)

    async def clear(self) -> None:
        self.did.append("clear")


class Party:
    """A run, and everybody whom it tells something."""

    def __init__(self, folder: Path, *, kind: Kind = KIND, **options: Any) -> None:
        self.clock, self.orders = ManualClock(), Orders()
        belief = HeldLease(job_id="j", attempt=1, token=1, lease_ms=1000, trusted_until_ms=2**60)
        self.holding = Holding(LEASE, belief)
        self.folder = AttemptFolder(folder, 1)
        self.folder.create()
        self.used: list[tuple[int, int]] = []
        self.named: list[int] = []
        self.uploaded: list[int] = []
        self.standing = Standing(status="held")
        self.process = Scripted()
        self.run = Run(
            kind=kind,
            folder=self.folder,
            log_file=folder / "log",
            holding=self.holding,
            orders=self.orders,
            options=WorkerOptions(modules=(), **options),
            processes=cast("Pool", self),
            ledger=cast("Ledger", self),
            clock=self.clock,
            room=cast("Reservation", SimpleNamespace(used=self._use)),
            successor=cast("Successor", SimpleNamespace(look=lambda: None)),
        )

    async def carry(self, *script: Step) -> Ran | None:
        self.process.script = list(script)
        granted = Granted(lease=LEASE, namespace="default", kind="render", version="v1")
        uploads = cast("CheckpointUpload", self)
        return await self.run.carry(granted, inputs={}, resume=None, uploads=uploads)

    async def result(self, **outputs: Path) -> Ran:
        """Of a job that returns these, and ends well."""
        ran = await self.carry(Done(outputs, None), ENDED)
        assert ran is not None
        return ran

    # --- as a pool ---

    async def take(self, granted: Granted, kind: Kind) -> Scripted:
        return self.process

    def give_back(self, process: Scripted) -> None:
        process.did.append("give back")

    async def end(self, process: Scripted) -> None:
        process.did.append("end")

    # --- as a ledger, and as a store ---

    async def checkpoint(self, request: CheckpointRequest) -> Standing:
        self.named.append(request.checkpoint.seq)
        return self.standing

    def upload(self, folder: Path, seq: int, *, may_go_on: Callable[[], bool]) -> Checkpoint:
        self.uploaded.append(seq)
        return Checkpoint(attempt=1, seq=seq, format="steps-1")

    def _use(self, *, disk_bytes: int, memory_bytes: int) -> None:
        self.used.append((disk_bytes, memory_bytes))


@pytest.fixture
def party(tmp_path: Path) -> Party:
    return Party(tmp_path)


def code_of(ran: Ran | None) -> str | None:
    return ran.error.code if ran is not None and ran.error is not None else None


async def test_a_result_counts_only_once_its_process_has_ended_with_0(party: Party) -> None:
    assert await party.carry(Done({}, 42), ENDED) == Ran(value=42)

    ran = await party.carry(Done({}, 42), Exited(code=3))
    assert (ran and ran.outcome, code_of(ran)) == (Outcome.TRANSIENT, "exit")
    ran = await party.carry(Done({}, 42), Exited(signal=11))
    assert (ran and ran.outcome, code_of(ran)) == (Outcome.TRANSIENT, "signal")


async def test_a_process_that_said_done_and_lingers_is_no_success(
    party: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "EXIT_S", 0.02)

    ran = await party.carry(Done({}, 42))

    assert (ran and ran.outcome, code_of(ran)) == (Outcome.TRANSIENT, "signal")
    assert party.process.did == ["run", "kill", "end"]


@pytest.mark.parametrize("what", ["missing", "empty", "outside", "link", "folder", "below a link"])
async def test_an_output_is_a_plain_file_in_scratch_with_something_in_it(
    party: Party, tmp_path: Path, what: str
) -> None:
    """Job code may write on its line what its runner would not."""
    (tmp_path / "elsewhere").mkdir()
    foreign, out = tmp_path / "elsewhere" / "file", party.folder.scratch / "out"
    foreign.write_text("not of this job")
    match what:
        case "empty":
            out.touch()
        case "outside":
            out = foreign
        case "link":
            out.symlink_to(foreign)
        case "folder":
            out.mkdir()
        case "below a link":
            out.symlink_to(foreign.parent)
            out /= "file"

    ran = await party.result(out=out)

    codes = {"link": "kind", "folder": "kind", "below a link": "outside"}
    assert (ran.outcome, code_of(ran), ran.outputs) == (Outcome.PERMANENT, f"output-{codes.get(what, what)}", {})


async def test_what_a_job_returns_is_measured_once_more_holes_included(party: Party) -> None:
    out = party.folder.scratch / "out"
    with out.open("wb") as file:
        file.truncate(MIB)
    assert (await party.result(out=out)).outputs == {"out": out}

    with out.open("ab") as file:
        file.write(b"x")
    assert code_of(await party.result(out=out)) == "output"


async def test_a_limit_ends_the_job_and_what_it_uses_is_told(party: Party) -> None:
    ran = await party.carry(Vitals(rss_bytes=MIB + 1, scratch_bytes=5))

    assert (code_of(ran), party.process.did, party.used) == ("memory", ["run", "kill", "end"], [(5, MIB + 1)])


@pytest.mark.parametrize("limits", [{"max_runtime_s": 60}, {"stall_s": 10}])
async def test_time_that_the_machine_slept_counts_for_no_limit(tmp_path: Path, limits: dict[str, float]) -> None:
    for by_s, ends in (([1, 3600, 1], None), ([1] * 61, "overtime" if "max_runtime_s" in limits else "stalled")):
        party = Party(tmp_path / str(ends), kind=replace(KIND, **limits))  # type: ignore[arg-type]
        passing = [partial(party.clock.advance, seconds) for seconds in by_s]
        assert code_of(await party.carry(*passing, Done({}, 42), ENDED)) == ends


async def test_what_a_job_calls_its_files_hides_no_failure(party: Party) -> None:
    """Bytes that are no text would be refused wherever the failure is sent."""
    out = party.folder.scratch / os.fsdecode(b"\xff.mp4")
    out.touch()

    ran = await party.result(out=out)

    assert ran.error is not None and b"?.mp4 is empty" in ran.error.message.encode()


@pytest.mark.parametrize("said", [Failed(Outcome.PERMANENT, "no", "no"), Stopped()])
async def test_whatever_ends_an_attempt_its_process_is_dead_before_that_is_said(party: Party, said: Happening) -> None:
    await party.carry(said)

    assert party.process.did == ["run", "kill", "end"]


async def test_a_job_that_stops_unasked_has_failed(party: Party) -> None:
    ran = await party.carry(Stopped())

    assert (ran and ran.outcome, code_of(ran)) == (Outcome.TRANSIENT, "stopped")


async def test_a_lease_that_is_over_ends_the_job_and_nothing_is_said(party: Party) -> None:
    ran = await party.carry(lambda: party.holding.end(Standing(status="canceled")), Done({}, 42), ENDED)

    assert (ran, party.process.did) == (Ran(over=True), ["run", "kill", "end"])


async def test_a_broken_worker_ends_its_jobs_and_says_nothing(party: Party) -> None:
    assert await party.carry(lambda: party.orders.give(abandon=True), Done({}, 42), ENDED) is None
    assert party.process.did == ["run", "kill", "end"]


async def test_a_worker_in_a_hurry_gives_its_jobs_back_as_they_are(party: Party) -> None:
    ran = await party.carry(lambda: party.orders.give(hurry=True), Done({}, 42), ENDED)

    assert (ran and ran.released, party.process.did) == ("the worker drains", ["run", "kill", "end"])


async def test_a_process_that_cannot_be_started_is_no_failure_of_the_job(
    party: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(granted: Granted, kind: Kind) -> Scripted:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(party, "take", refuse)

    ran = await party.carry()

    assert ran == Ran(released="the job process did not start: Resource temporarily unavailable", started=False)


async def test_a_draining_worker_starts_nothing(party: Party) -> None:
    party.orders.give(hand_back_ms=1)

    ran = await party.carry(Done({}, 42), ENDED)

    assert (ran and ran.released, party.process.did) == ("the worker drains", [])


async def test_a_job_may_end_then_leave_a_checkpoint_and_then_it_has_to_go(tmp_path: Path) -> None:
    party = Party(tmp_path, drain_grace_s=5, checkpoint_grace_s=8)
    seen: list[list[str]] = []

    def after(seconds: float) -> Callable[[], None]:
        def pass_time() -> None:
            seen.append(list(party.process.did))
            party.clock.advance(seconds)

        return pass_time

    drain = lambda: party.orders.give(hand_back_ms=party.clock.boot_ms())  # noqa: E731
    ran = await party.carry(drain, after(4.9), after(0.1), after(7.9), after(0.1), Done({}, 42), ENDED)

    assert seen == [["run"], ["run"], ["run", "ask_stop"], ["run", "ask_stop"]]
    assert (ran and ran.released, party.process.did[-2:]) == ("the worker drains", ["kill", "end"])


async def test_a_kind_that_is_not_resumable_leaves_no_checkpoint(tmp_path: Path) -> None:
    party = Party(tmp_path, kind=replace(KIND, resumable=""))

    await party.carry(CheckpointReady(1), party.process.answered, Done({}, 42), ENDED)

    assert (party.uploaded, party.named) == ([], [])
    assert "checkpoint 1 kind render is not declared resumable" in party.process.did


async def test_a_checkpoint_that_comes_too_late_ends_the_attempt(party: Party) -> None:
    party.standing = Standing(status="lost", why="stale")

    ran = await party.carry(CheckpointReady(1))

    assert (ran, party.holding.verdict) == (Ran(over=True), party.standing)
    assert "checkpoint 1 stale" in party.process.did


async def test_checkpoints_are_taken_in_order_though_threads_of_the_job_ask_at_once(party: Party) -> None:
    """The first one takes its time: until the second one is named, were that let through."""
    upload, name, second = party.upload, party.checkpoint, threading.Event()

    def slowly(folder: Path, seq: int, *, may_go_on: Callable[[], bool]) -> Checkpoint:
        if seq == 1:
            second.wait(1)
        return upload(folder, seq, may_go_on=may_go_on)

    async def named(request: CheckpointRequest) -> Standing:
        if request.checkpoint.seq == 2:
            asyncio.get_running_loop().call_soon(second.set)
        return await name(request)

    party.upload, party.checkpoint = slowly, named  # type: ignore[method-assign]
    await party.carry(CheckpointReady(1), CheckpointReady(2), partial(party.process.answered, 2), Done({}, 42), ENDED)

    assert party.named == [1, 2]


async def test_a_checkpoint_on_its_way_ends_with_its_attempt(party: Party) -> None:
    """It would be named by nobody, and a worker that ends waits for its threads."""
    under_way, loop = asyncio.Event(), asyncio.get_running_loop()

    def slowly(folder: Path, seq: int, *, may_go_on: Callable[[], bool]) -> Checkpoint:
        loop.call_soon_threadsafe(under_way.set)
        for _ in range(500):
            if not may_go_on():
                raise LostLease("told to end")
            time.sleep(0.01)
        return Checkpoint(attempt=1, seq=seq, format="steps-1")

    party.upload = slowly  # type: ignore[method-assign]
    await party.carry(CheckpointReady(1), under_way.wait, lambda: party.orders.give(hurry=True))

    async with asyncio.timeout(2):
        await party.run.stored()


async def test_a_warm_process_that_has_ended_serves_no_more(tmp_path: Path) -> None:
    party = Party(tmp_path, kind=replace(KIND, warm=True))
    party.process.has_ended = True

    assert await party.carry(Done({}, 42)) == Ran(value=42)
    assert party.process.did == ["run", "clear", "end"]


async def test_a_warm_process_serves_again_only_after_a_success_that_counts(tmp_path: Path) -> None:
    party = Party(tmp_path, kind=replace(KIND, warm=True))
    (party.folder.scratch / "out").write_text("fine")

    assert (await party.result(out=Path("out"))).outputs
    assert party.process.did == ["run", "clear", "give back", "end"]
    party.process.did.clear()
    assert code_of(await party.result(out=Path("none"))) == "output-missing"
    assert party.process.did == ["run", "clear", "end"]
