"""What an attempt says of itself, and what it does not, however its process has gone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from planrun.core.errors import LedgerUnavailable, LostLease, StorageError
from planrun.core.kinds import Kind
from planrun.core.lease import HeldLease
from planrun.core.life import Outcome
from planrun.core.messages import (
    Checkpoint,
    CheckpointFile,
    Failure,
    Granted,
    Lease,
    Output,
    ReleaseRequest,
    Settled,
    SettleRequest,
    Standing,
)
from planrun.storage.contract import Stored
from planrun.worker.attempt import Attempt, Tools
from planrun.worker.folder import AttemptFolder
from planrun.worker.keeper import Holding
from planrun.worker.options import WorkerOptions
from planrun.worker.orders import Orders
from planrun.worker.run import Ran, Run
from planrun.worker.store_wait import Drained
from planrun.worker.taking import Successor
from tests.contract.manual_clock import ManualClock

pytestmark = pytest.mark.anyio

PATIENCE_S = 5.0
LEASE = Lease(job_id="j", attempt=1, token=1)
HELD = Standing(status="held")
WON = Settled(status="won")
FATAL = Ran.failed(Outcome.FATAL, Failure(message="the card has locked up", code="fatal"))


class Party:
    """An attempt, the ledger and the store that it asks, and how its process goes."""

    def __init__(self, folder: Path) -> None:
        self.clock, self.orders = ManualClock(), Orders()
        self.trusted_until_ms = self.clock.boot_ms() + 1000
        self.asked: list[str] = []
        self.standings: list[Standing | LedgerUnavailable] = [HELD]
        self.settled: list[Settled | LedgerUnavailable] = [WON]
        self.ran: Ran | None = Ran()
        self.checkpoint: Checkpoint | None = None
        self.resumed: list[Path | None] = []
        self.found: list[str] = []
        self.outputs: Sequence[Output] = ()
        self.outcome: Outcome | None = None
        self.bytes = 5
        self.is_fleet = False
        self.goes_on, self.has_stopped = threading.Event(), threading.Event()
        self.folder = AttemptFolder(folder, 1)
        belief = HeldLease(job_id="j", attempt=1, token=1, lease_ms=1000, trusted_until_ms=self.trusted_until_ms)
        self.holding = Holding(LEASE, belief)

    async def carry(self) -> Attempt:
        party = cast("Any", self)
        run = {"carry": self._run, "stored": self._stored, "orders": self.orders}
        run |= {"options": WorkerOptions(modules=()), "log_file": self.folder.path / "log"}
        successor = {"has_come": self._nobody, "looked": self._nobody, "take": lambda: self.asked.append("follow")}
        attempt = Attempt(
            Granted(lease=LEASE, namespace="ns", kind="render", version="v1", checkpoint=self.checkpoint),
            Kind(kind="render", version="v1", module="m", resumable="steps-1"),
            self.holding,
            self.folder,
            Tools(party, party, self.clock, party, party, "w1", is_fleet=self.is_fleet),
            cast("Run", SimpleNamespace(**run)),
            cast("Successor", SimpleNamespace(**successor)),
        )
        await attempt.carry()
        return attempt

    def returns(self, *names: str) -> None:
        """The job leaves such files."""
        self.ran = Ran(outputs={name: self.folder.scratch / name for name in names})

    def leave_checkpoint(self, key: str, layout: str = "steps-1") -> None:
        """The attempt before has left one."""
        file = CheckpointFile(name="state", key=key, sha256="digest", bytes=5)
        self.checkpoint = Checkpoint(attempt=1, seq=1, format=layout, files=(file,))

    async def _run(self, granted: Granted, *, resume: Path | None, **_: Any) -> Ran | None:
        self.resumed.append(resume)
        self.found = sorted(path.name for path in self.folder.path.iterdir())
        if self.ran is not None:
            for path in self.ran.outputs.values():
                path.write_text("bytes")
        return self.ran

    async def _stored(self) -> None:
        self.asked.append("stored")

    async def _nobody(self) -> bool:
        return False

    def drop(self, lease: Lease) -> None:
        self.asked.append("drop")

    # --- as a ledger ---

    async def standing(self, lease: Lease, intent: Sequence[Output]) -> Standing:
        self.asked.append("standing")
        answer = self.standings.pop(0) if self.standings[1:] else self.standings[0]
        if isinstance(answer, LedgerUnavailable):
            raise answer
        return answer

    async def settle(self, request: SettleRequest) -> Settled:
        self.asked.append("settle")
        self.outcome, self.outputs = request.outcome, request.outputs
        answer = self.settled.pop(0)
        if isinstance(answer, LedgerUnavailable):
            raise answer
        return answer

    async def release(self, request: ReleaseRequest) -> Settled:
        self.asked.append("release" if request.started else "release unstarted")
        return self.settled.pop(0)  # type: ignore[return-value]

    async def stopped(self, lease: Lease, who: str) -> None:
        self.asked.append("stopped")

    # --- as a store ---

    def put(self, prefix: str, name: str, path: Path, *, may_go_on: Callable[[], bool]) -> Stored:
        self.asked.append(f"put {prefix}{name}")
        if not may_go_on():
            raise LostLease("not any more")
        return Stored(f"{prefix}{name}", "digest", 5)

    def head(self, key: str) -> int | None:
        return self.bytes

    def get(self, key: str, path: Path, *, sha256: str, before_chunk: Callable[[], None]) -> None:
        self.asked.append(f"get {key}")
        if key == "slow":
            assert self.goes_on.wait(PATIENCE_S)
            try:
                before_chunk()
            except (Drained, LostLease):
                self.has_stopped.set()
                raise
        raise StorageError("it is gone")


@pytest.fixture
def party(tmp_path: Path) -> Party:
    return Party(tmp_path)


async def test_what_is_stored_was_asked_for_first_and_is_settled_then(party: Party) -> None:
    party.returns("a", "b")

    await party.carry()

    assert party.asked[:4] == ["standing", "put ns/jobs/j/1-1/a", "put ns/jobs/j/1-1/b", "follow"]
    assert party.asked[4:] == ["settle", "drop"]
    assert [output.name for output in party.outputs] == ["a", "b"]


async def test_who_has_lost_its_job_uploads_and_settles_nothing_and_says_that_it_has_stopped(party: Party) -> None:
    party.returns("a")
    party.standings = [Standing(status="lost")]

    await party.carry()

    assert party.asked == ["standing", "stored", "stopped", "drop"]


async def test_without_an_answer_only_the_own_deadline_counts(party: Party) -> None:
    party.returns("a")
    party.standings = [LedgerUnavailable("away")]

    await party.carry()
    assert party.asked[:3] == ["standing", "put ns/jobs/j/1-1/a", "follow"]


async def test_past_the_own_deadline_an_answer_is_waited_for(party: Party) -> None:
    party.returns("a")
    party.standings = [LedgerUnavailable("away"), LedgerUnavailable("away"), HELD]
    party.clock.advance(1)

    await party.carry()

    assert party.asked[:4] == ["standing", "standing", "standing", "put ns/jobs/j/1-1/a"]


async def test_a_worker_that_ends_waits_for_no_fence_check(party: Party) -> None:
    party.returns("a")
    party.is_fleet, party.standings = True, [LedgerUnavailable("away")]
    party.clock.advance(1)
    party.orders.give(hand_back_ms=party.clock.boot_ms(), hurry=True)

    with pytest.raises(LedgerUnavailable, match="goes on elsewhere"):
        async with asyncio.timeout(PATIENCE_S):
            await party.carry()

    assert party.asked[-1] == "drop"
    assert not [what for what in party.asked if what.startswith("put")]


async def test_who_hears_that_it_is_over_waits_for_no_fence_check(party: Party) -> None:
    party.returns("a")
    party.standings = [LedgerUnavailable("away")]
    party.clock.advance(1)
    carrying = asyncio.create_task(party.carry())
    async with asyncio.timeout(PATIENCE_S):
        while party.asked.count("standing") < 2:
            await party.clock.sleep(0.01)
        party.holding.end(Standing(status="canceled"))
        await carrying

    assert party.asked[-3:] == ["stored", "stopped", "drop"]
    assert not [what for what in party.asked if what.startswith("put")]


async def test_an_upload_that_outlasts_the_own_deadline_is_asked_for_anew(party: Party) -> None:
    party.returns("a")
    put = party.put

    def slowly(prefix: str, name: str, path: Path, *, may_go_on: Callable[[], bool]) -> Stored:
        party.clock.advance(1 if party.asked.count("standing") == 1 else 0)
        return put(prefix, name, path, may_go_on=may_go_on)

    party.put = slowly  # type: ignore[method-assign]
    await party.carry()

    assert party.asked[:5] == ["standing", "put ns/jobs/j/1-1/a", "standing", "put ns/jobs/j/1-1/a", "follow"]


async def test_an_object_that_is_not_what_was_written_is_not_named(party: Party) -> None:
    party.returns("a")
    party.bytes = 4

    await party.carry()

    assert (party.outcome, party.outputs) == (Outcome.TRANSIENT, ())


async def test_a_settle_that_nobody_answers_is_made_again(party: Party) -> None:
    party.settled = [LedgerUnavailable("away"), LedgerUnavailable("away"), WON]

    await party.carry()

    assert party.asked.count("settle") == 3


@pytest.mark.parametrize(("status", "ends"), [("won", True), ("requeued", True), ("lost", False), ("canceled", False)])
async def test_only_a_fatal_error_that_was_accepted_ends_the_worker(party: Party, status: str, ends: bool) -> None:
    """A stale attempt has nothing to say."""
    party.ran, party.settled = FATAL, [Settled(status=status)]

    assert (await party.carry()).failed_fatally is ends
    assert ("stopped" in party.asked) is not ends


async def test_nothing_follows_a_fatal_error(party: Party) -> None:
    party.ran = FATAL

    await party.carry()

    assert "follow" not in party.asked


async def test_a_broken_worker_says_nothing_of_its_jobs(party: Party) -> None:
    party.ran = None

    await party.carry()

    assert party.asked == ["drop"]


@pytest.mark.parametrize("ran", [Ran(over=True), Ran(released="the worker drains")])
async def test_what_is_over_or_handed_back_is_not_settled(party: Party, ran: Ran) -> None:
    party.ran = ran

    await party.carry()

    assert "settle" not in party.asked


@pytest.mark.parametrize(("started", "asked"), [(True, "release"), (False, "release unstarted")])
async def test_a_hand_back_says_whether_the_job_had_begun(party: Party, started: bool, asked: str) -> None:
    party.ran = Ran(released="why", started=started)

    await party.carry()

    assert party.asked[0] == asked


@pytest.mark.parametrize("layout", ["steps-1", "steps-2"])
async def test_only_a_checkpoint_of_the_own_layout_is_looked_for_and_one_that_is_gone_costs_a_new_beginning(
    party: Party, layout: str
) -> None:
    party.leave_checkpoint("there", layout)

    await party.carry()

    assert ("get there" in party.asked) is (layout == "steps-1")
    assert (party.resumed, party.outcome) == ([None], Outcome.SUCCESS)
    assert party.found == ["home", "scratch", "tmp"]


@pytest.mark.parametrize(("ends", "said"), [("lease", ["stored", "stopped"]), ("drain", ["release"]), ("break", [])])
async def test_while_a_checkpoint_is_fetched_lease_and_orders_are_heard_and_nobody_waits_for_the_store(
    party: Party, ends: str, said: list[str]
) -> None:
    party.leave_checkpoint("slow")
    carrying = asyncio.create_task(party.carry())
    async with asyncio.timeout(PATIENCE_S):
        while "get slow" not in party.asked:  # noqa: ASYNC110 - a thread is asked
            await asyncio.sleep(0.01)
        match ends:
            case "lease":
                party.holding.end(Standing(status="canceled"))
            case "drain":
                party.orders.give(hand_back_ms=party.clock.boot_ms())
            case "break":
                party.orders.give(abandon=True)
        await carrying

    assert party.asked == ["get slow", *said, "drop"]
    assert party.resumed == []
    party.goes_on.set()
    assert await asyncio.to_thread(party.has_stopped.wait, PATIENCE_S)
