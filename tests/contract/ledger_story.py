"""Whatever two workers, a client and a sweeper do in any order, the invariants hold and every job ends.

Hypothesis invents the order: stale leases are used again, calls are repeated, workers die, the machine is
rebooted. After every step the whole ledger is compared with what was seen before:

    S1  an end is final, and so is its answer     S6  settled before announced
    S2  one answer per subscriber                 S7  only the lease that owns a job changes it
    S4  attempts and tokens only grow             S11 every attempt that failed is charged to one budget

C16: no job is ever in a state that nobody looks at.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from planrun.core.life import ENDED, Outcome, State
from planrun.core.messages import AttemptRow, Granted, JobRow, Lease, Result
from planrun.ledger.contract import Ledger

from .actors import LEASE_MS, Actors
from .manual_clock import ManualClock

T = TypeVar("T")

FAULTS = [Outcome.PERMANENT, Outcome.TRANSIENT, Outcome.FATAL, Outcome.STALLED, Outcome.OVERTIME]
WORKERS = ["w1", "w2"]
# A job ends within this many further attempts whatever happened before: 4 failures, 8 losses, 20 hand-backs.
ATTEMPTS_MAX = 40

some = st.integers(0, 1_000)  # picks one of what there is, by its remainder


class LedgerStory(RuleBasedStateMachine):
    """Base for one backend: it says how a ledger is opened."""

    def open_ledger(self, folder: Path, clock: ManualClock) -> Ledger:
        raise NotImplementedError("each backend opens its own ledger")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = ManualClock()
        self.ledgers = [self.open_ledger(Path(self.folder.name), self.clock) for _ in WORKERS]
        self.parties = [Actors(ledger, self.clock) for ledger in self.ledgers]
        self.they = self.parties[0]
        self.jobs: list[str] = []
        self.leases: list[Lease] = []  # every one ever granted, so that stale ones are used too
        self.answers: dict[str, Result] = {}
        self.rows: dict[str, JobRow] = {}
        self.bodies: dict[str, str] = {}
        self.owed: set[str] = set()
        for worker in WORKERS:
            self.run(self.they.register(worker))
        self.parties[1].ready = self.they.ready

    def run(self, doing: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(doing)

    # --- what may happen ---

    @rule(party=st.sampled_from([0, 1]), key=st.sampled_from([None, "a", "b"]), route=st.sampled_from([None, "x", "y"]))
    def submit(self, party: int, key: str | None, route: str | None) -> None:
        subscribers = (f"webhook:{route}",) if route else ()
        reply = self.run(self.parties[party].submit(key=key, max_attempts=3, subscribers=subscribers))
        assert (reply.disposition == "new") == (reply.job_id not in self.jobs)
        if reply.disposition == "new":
            self.jobs.append(reply.job_id)
        if route:
            self.owed.add(f"result:{reply.job_id}:webhook:{route}")

    @precondition(lambda self: self.jobs)
    @rule(worker=st.sampled_from([0, 1]), pick=some, stale_by=st.sampled_from([0, 0, 0, 1]))
    def ask_for_a_grant(self, worker: int, pick: int, stale_by: int) -> None:
        row = self.run(self.they.row(self.jobs[pick % len(self.jobs)]))
        answer = self.run(self.parties[worker].ask(row.job_id, max(1, row.attempt - stale_by), by=WORKERS[worker]))
        if isinstance(answer, Granted):
            assert (row.state, row.attempt) == (State.QUEUED, answer.lease.attempt)
            assert row.not_before_ms <= self.clock.boot_ms_now
            self.leases.append(answer.lease)

    @precondition(lambda self: self.leases)
    @rule(pick=some, party=st.sampled_from([0, 1]), outcome=st.sampled_from([Outcome.SUCCESS, *FAULTS]))
    def settle(self, pick: int, party: int, outcome: Outcome) -> None:
        lease = self.leases[pick % len(self.leases)]
        before = self.run(self.they.row(lease.job_id))
        actors = self.parties[party]
        for _ in range(2):  # a repeat gets the same answer and changes nothing more
            settle = actors.succeed(lease) if outcome is Outcome.SUCCESS else actors.fail(lease, outcome)
            settled = self.run(settle)
        after = self.run(self.they.row(lease.job_id))
        if before.token != lease.token:
            assert after == before, "S7: a lease that did not own the job changed it"
        else:
            assert settled.status in ("won", "requeued")
            assert settled.state is after.state

    @precondition(lambda self: self.leases)
    @rule(pick=some, started=st.booleans())
    def release(self, pick: int, started: bool) -> None:
        lease = self.leases[pick % len(self.leases)]
        before = self.run(self.they.row(lease.job_id))
        self.run(self.they.release(lease, started=started))
        after = self.run(self.they.row(lease.job_id))
        assert (after != before) == (before.token == lease.token)

    @precondition(lambda self: self.leases)
    @rule(pick=some, seq=st.integers(1, 3))
    def save_a_checkpoint(self, pick: int, seq: int) -> None:
        lease = self.leases[pick % len(self.leases)]
        before = self.run(self.they.row(lease.job_id))
        self.run(self.they.save(lease, seq))
        after = self.run(self.they.row(lease.job_id))
        if before.token != lease.token:
            assert after == before

    @precondition(lambda self: self.leases)
    @rule(pick=some)
    def renew(self, pick: int) -> None:
        lease = self.leases[pick % len(self.leases)]
        before = self.run(self.they.row(lease.job_id))
        [status] = self.run(self.they.renew(lease))
        after = self.run(self.they.row(lease.job_id))
        assert (status == "held") == (before.token == lease.token)
        if before.lease_until_ms is not None:
            assert after.lease_until_ms is not None
            assert after.lease_until_ms >= before.lease_until_ms

    @precondition(lambda self: self.jobs)
    @rule(pick=some)
    def cancel(self, pick: int) -> None:
        job_id = self.jobs[pick % len(self.jobs)]
        was_open = job_id not in self.answers
        assert self.run(self.they.cancel(job_id)).canceled == was_open

    @rule(seconds=st.sampled_from([1, 4, 30, LEASE_MS // 1000]))
    def time_passes_and_the_sweeper_looks(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self.run(self.they.ledger.expire(stamp_ms=self.clock.boot_ms_now))
        self.run(self.they.ledger.promote())

    @rule(worker=st.sampled_from(WORKERS))
    def a_worker_is_proven_dead(self, worker: str) -> None:
        self.run(self.they.ledger.bury(worker, who="w3"))
        assert self.run(self.they.ledger.held(worker)) == []

    @rule()
    def the_machine_is_rebooted(self) -> None:
        self.clock.reboot(off_s=10, boot_ms=3_000 + len(self.clock.epoch))
        for ledger in self.ledgers:
            self.run(ledger.adopt_epoch())
        assert not any(row.state is State.RUNNING for row in self.run(self.now()))

    @rule(party=st.sampled_from([0, 1]))
    def publish(self, party: int) -> None:
        for msg_id, body in self.run(self.parties[party].bodies()).items():
            assert self.bodies.setdefault(msg_id, body) == body, "S2: two answers to one subscriber"
            assert msg_id.split(":")[1] in self.answers, "S6: announced before it was settled"

    # --- what must hold ---

    async def now(self) -> list[JobRow]:
        return [await self.they.row(job_id) for job_id in self.jobs]

    @invariant()
    def every_invariant_holds(self) -> None:
        assert self.run(self.they.ledger.violations()) == []
        for row in self.run(self.now()):
            before = self.rows.get(row.job_id)
            attempts = self.run(self.they.ledger.attempts(row.job_id))
            result = self.run(self.they.ledger.result(row.job_id))
            if before is not None and before.state in ENDED:
                assert row.state is before.state, "S1: an end was left"
            if row.job_id in self.answers:
                assert result == self.answers[row.job_id], "S1: the answer changed"
            assert (row.state in ENDED) == (result is not None)
            if result is not None:
                self.answers[row.job_id] = result
                assert result.state is row.state
            assert before is None or row.attempt >= before.attempt, "S4: an attempt went back"
            tokens = [attempt.token for attempt in attempts]
            assert tokens == sorted(set(tokens)), "S4: tokens of a job grow"
            assert [attempt.attempt for attempt in attempts] == list(range(1, len(attempts) + 1))
            budgets_add_up(row, attempts)
            self.rows[row.job_id] = row
        assert len({lease.token for lease in self.leases}) == len(self.leases), "S4: granted twice"

    def teardown(self) -> None:
        """The faults stop: every job ends, and every answer is owed."""
        try:
            for _ in range(ATTEMPTS_MAX):
                if any(row.state is State.RUNNING for row in self.run(self.now())):
                    self.run(self.they.expire_all())
                self.clock.advance(8)
                self.run(self.they.ledger.promote())
                for job_id in self.run(self.they.line()):
                    self.run(self.they.succeed(self.run(self.they.grant(job_id))))
            self.every_invariant_holds()
            assert set(self.answers) == set(self.jobs)
            for _ in range(2):
                self.clock.advance(3600)
                self.publish(0)
            assert set(self.bodies) == self.owed
        finally:
            for ledger in self.ledgers:
                self.run(ledger.close())
            self.loop.close()
            self.folder.cleanup()


def budgets_add_up(row: JobRow, attempts: list[AttemptRow]) -> None:
    """S11: every attempt that ended without success or cancel raised exactly one counter, and none passed its limit."""
    outcomes = [attempt.outcome for attempt in attempts]
    assert row.failures == sum(outcome in FAULTS for outcome in outcomes)
    assert row.losses == outcomes.count(Outcome.LOST)
    assert row.handbacks <= outcomes.count(Outcome.RELEASED)
    assert row.failures <= row.max_attempts
    assert row.losses <= row.max_losses
    assert row.handbacks <= row.max_handbacks + (row.state in ENDED)
    if row.state in (State.QUEUED, State.RUNNING):
        assert row.failures < row.max_attempts
        assert row.losses < row.max_losses
        assert (row.state is State.RUNNING) == (row.lease_until_ms is not None)
