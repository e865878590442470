"""The fence of each statement, clause by clause.

The verbs look at the row before they write, so a clause that is missing in the SQL would not show through
the port. It must hold by itself: on another dialect the look and the write are two moments.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import apsw
import pytest

from planrun.clock import Instant
from planrun.core.messages import Granted, GrantRequest, Lease
from planrun.ledger.contract import Ledger
from planrun.ledger.sqlite.writer import SqliteTx
from planrun.ledger.tx import dump

from .plain import a_request, a_worker

pytestmark = pytest.mark.anyio

LEASE_MS = 60_000
Row = dict[str, Any]


@pytest.fixture
async def lease(ledger: Ledger) -> Lease:
    """A running job."""
    await ledger.register(a_worker("w1"))
    [reply] = await ledger.submit([a_request("running")])
    granted = await ledger.grant(
        GrantRequest(job_id=reply.job_id, attempt=1, incarnation="w1", nonce="n", lease_ms=LEASE_MS)
    )
    assert isinstance(granted, Granted)
    return granted.lease


@pytest.fixture
async def waiting(ledger: Ledger) -> str:
    """A queued job."""
    [reply] = await ledger.submit([a_request("waiting")])
    return reply.job_id


@pytest.fixture
def tx(path: Path, lease: Lease, waiting: str) -> Iterator[SqliteTx]:
    """A transaction on the file, begun once both jobs are there: it keeps every other writer out."""
    connection = apsw.Connection(str(path))
    connection.execute("BEGIN IMMEDIATE")
    yield SqliteTx(connection, Instant(0, 0, "boot"))
    connection.execute("ROLLBACK")
    connection.close()


def set_job(tx: SqliteTx, job_id: str, **columns: Any) -> None:
    for column, value in columns.items():
        tx._connection.execute(f"UPDATE job SET {column} = ? WHERE job_id = ?", (value, job_id))


def fence(lease: Lease) -> Row:
    return {"job_id": lease.job_id, "attempt": lease.attempt, "token": lease.token}


def by_lease(tx: SqliteTx, name: str, identity: Row, values: Row) -> list[Row]:
    """Run a statement of a lease's holder; heartbeats are many in one."""
    if name == "renew":
        return tx.rows(name, beats=dump([[*identity.values(), 1]]), **values)
    return tx.rows(name, **identity, **values)


CHARGE_NONE = {"failures": 0, "losses": 0, "handbacks": 0}
# statements that a lease's holder may use, with their other values
BY_LEASE: dict[str, Row] = {
    "renew": {"now_ms": 1},
    "stage": {"staged": "[]"},
    "checkpoint": {"seq": 1, "checkpoint": "[]"},
    "requeue": {**CHARGE_NONE, "checkpoint": "[]", "not_before_ms": 0},
    "end_running": {**CHARGE_NONE, "state": "finished", "reason": None, "wall_ms": 1},
    "end_attempt": {"outcome": "success", "error": None, "wall_ms": 1, "stopped": 1},
    "extend": {"now_ms": 1},
}


@pytest.mark.parametrize(("name", "values"), BY_LEASE.items())
class TestStatementsOfAHolder:
    async def test_the_holder_may(self, tx: SqliteTx, lease: Lease, name: str, values: Row) -> None:
        assert len(by_lease(tx, name, fence(lease), values)) == 1

    @pytest.mark.parametrize("wrong", [{"job_id": "another"}, {"attempt": 2}, {"token": 1}])
    async def test_a_wrong_job_attempt_or_token_matches_nothing(
        self, tx: SqliteTx, lease: Lease, name: str, values: Row, wrong: Row
    ) -> None:
        identity = {**fence(lease), **wrong}

        assert by_lease(tx, name, identity, values) == []

    async def test_once_the_job_went_on_the_old_lease_matches_nothing(
        self, tx: SqliteTx, lease: Lease, name: str, values: Row
    ) -> None:
        tx.rows("end_attempt", **fence(lease), **BY_LEASE["end_attempt"])
        tx.rows("requeue", **fence(lease), **BY_LEASE["requeue"])

        assert by_lease(tx, name, fence(lease), values) == []


class TestGrant:
    def grant(self, tx: SqliteTx, job_id: str, **given: Any) -> list[Row]:
        values = {"attempt": 1, "incarnation": "w1", "token": 99, "epoch": "boot", "now_ms": 1_000, "lease_ms": 1}
        return tx.rows("grant", **{"job_id": job_id, **values, **given})

    async def test_a_due_job_is_granted_at_its_attempt(self, tx: SqliteTx, lease: Lease, waiting: str) -> None:
        set_job(tx, waiting, not_before_ms=1_000)

        assert len(self.grant(tx, waiting)) == 1

    async def test_another_attempt_matches_nothing(self, tx: SqliteTx, lease: Lease, waiting: str) -> None:
        assert self.grant(tx, waiting, attempt=2) == []

    async def test_a_running_job_matches_nothing(self, tx: SqliteTx, lease: Lease) -> None:
        assert self.grant(tx, lease.job_id) == []

    async def test_a_job_that_is_not_due_matches_nothing(self, tx: SqliteTx, lease: Lease, waiting: str) -> None:
        set_job(tx, waiting, not_before_ms=1_001)

        assert self.grant(tx, waiting) == []

    @pytest.mark.parametrize(
        ("namespace", "kind"), [("", ""), ("default", ""), ("", "preview"), ("default", "preview")]
    )
    async def test_a_paused_job_matches_nothing(self, tx: SqliteTx, waiting: str, namespace: str, kind: str) -> None:
        tx.rows("insert_pause", namespace=namespace, kind=kind, wall_ms=1, who="", why="")
        assert self.grant(tx, waiting) == []
        tx.rows("resume", namespace=namespace, kind=kind, wall_ms=1, who="", why="")
        tx.rows("insert_pause", namespace="ads", kind=kind, wall_ms=1, who="", why="")
        tx.rows("insert_pause", namespace=namespace, kind="poster", wall_ms=1, who="", why="")

        assert len(self.grant(tx, waiting)) == 1

    async def test_a_worker_that_is_unknown_matches_nothing(self, tx: SqliteTx, waiting: str) -> None:
        assert self.grant(tx, waiting, incarnation="nobody") == []


class TestOtherFences:
    @pytest.mark.parametrize(
        ("counter", "used", "limit"),
        [("failures", 3, "max_attempts"), ("losses", 7, "max_losses"), ("handbacks", 20, "max_handbacks")],
    )
    async def test_a_spent_budget_lets_nobody_back_in_line(
        self, tx: SqliteTx, lease: Lease, counter: str, used: int, limit: str
    ) -> None:
        values = {**BY_LEASE["requeue"], counter: 1}
        set_job(tx, lease.job_id, **{counter: used})
        assert tx.rows("requeue", **fence(lease), **values) == []
        set_job(tx, lease.job_id, **{counter: used - 1})

        assert len(tx.rows("requeue", **fence(lease), **values)) == 1

    @pytest.mark.parametrize(
        ("stands", "comes", "is_newer"),
        [((1, 1), (1, 2), True), ((1, 2), (1, 2), False), ((1, 3), (1, 2), False), ((1, 9), (2, 1), True)],
    )
    async def test_only_a_newer_checkpoint_is_taken(
        self, tx: SqliteTx, lease: Lease, stands: tuple[int, int], comes: tuple[int, int], is_newer: bool
    ) -> None:
        set_job(tx, lease.job_id, checkpoint=f'[{{"attempt":{stands[0]},"seq":{stands[1]}}}]', attempt=comes[0])
        identity = {**fence(lease), "attempt": comes[0]}

        assert bool(tx.rows("checkpoint", **identity, seq=comes[1], checkpoint="[]")) == is_newer

    @pytest.mark.parametrize("name", ["waiting", "running"])
    async def test_only_a_waiting_job_at_its_attempt_is_ended_as_waiting(
        self, tx: SqliteTx, lease: Lease, waiting: str, name: str
    ) -> None:
        end = {"state": "canceled", "reason": None, "wall_ms": 1}
        job_id = waiting if name == "waiting" else lease.job_id
        assert tx.rows("end_queued", job_id=job_id, attempt=2, **end) == []

        assert bool(tx.rows("end_queued", job_id=job_id, attempt=1, **end)) == (name == "waiting")

    async def test_a_pause_that_was_resumed_stays_in_the_history_as_it_is(self, tx: SqliteTx) -> None:
        ann = {"namespace": "", "kind": "preview", "wall_ms": 1, "who": "ann", "why": ""}
        assert (len(tx.rows("insert_pause", **ann)), tx.rows("insert_pause", **ann | {"who": "bob"})) == (1, [])
        assert len(tx.rows("resume", **ann)) == 1

        assert tx.rows("resume", **ann | {"who": "bob"}) == []
        assert [(row["who"], row["resumed_who"]) for row in tx.rows("pauses", limit=9)] == [("ann", "ann")]

    async def test_only_a_ready_worker_is_drained_and_only_what_somebody_drained_is_undone(self, tx: SqliteTx) -> None:
        ann = {"incarnation": "w1", "wall_ms": 1, "who": "ann", "why": ""}
        assert [row["name"] for row in tx.rows("drain", incarnation="w1")] == ["w1"]
        assert tx.rows("drain", incarnation="w1") == tx.rows("undrain", incarnation="w1") == []
        tx.rows("insert_drain", worker="w1", **ann)
        with pytest.raises(apsw.ConstraintError):
            tx.rows("insert_drain", worker="w1", **ann)

        assert len(tx.rows("undrain", incarnation="w1")) == 1
        assert tx.rows("undrain", incarnation="w1") == []

    async def test_exactly_the_set_that_was_asked_for_is_resumed(self, tx: SqliteTx) -> None:
        ann = {"wall_ms": 1, "who": "ann", "why": ""}
        sets = [("", "preview"), ("ads", "preview"), ("ads", "poster")]
        for namespace, kind in sets:
            tx.rows("insert_pause", namespace=namespace, kind=kind, **ann)

        assert len(tx.rows("resume", namespace="ads", kind="preview", **ann)) == 1

    async def test_a_message_arrives_once(self, tx: SqliteTx) -> None:
        tx.rows("insert_message", msg_id="result:a:command:b", route="command:b", body="", not_before_ms=0)

        assert [len(tx.rows("confirm", msg_id="result:a:command:b", wall_ms=n)) for n in (1, 2)] == [1, 0]

    async def test_a_drain_that_is_over_stays_in_the_history_as_it_is(self, tx: SqliteTx) -> None:
        ann = {"incarnation": "w1", "wall_ms": 1, "who": "ann", "why": ""}
        tx.rows("insert_drain", worker="w1", **ann)
        tx.rows("end_drain", undone=1, **ann)
        tx.rows("end_drain", undone=0, **ann | {"who": "bob"})

        assert [(row["undone"], row["undone_who"]) for row in tx.rows("drains", limit=9)] == [(1, "ann")]

    async def test_an_attempts_first_outcome_stands(self, tx: SqliteTx, lease: Lease) -> None:
        assert len(tx.rows("end_attempt", **fence(lease), **BY_LEASE["end_attempt"])) == 1
        assert tx.rows("end_attempt", **fence(lease), **BY_LEASE["end_attempt"]) == []

    async def test_an_attempt_stops_once(self, tx: SqliteTx, lease: Lease) -> None:
        tx.rows("end_attempt", **fence(lease), **BY_LEASE["end_attempt"] | {"stopped": 0})
        tx.rows("end_running", **fence(lease), **BY_LEASE["end_running"])

        assert [len(tx.rows("stopped", **fence(lease))) for _ in range(2)] == [1, 0]

    @pytest.mark.parametrize("wrong", ["attempt", "token"])
    @pytest.mark.parametrize("name", ["stopped", "collected"])
    async def test_stopped_and_collected_are_said_of_exactly_one_ended_attempt(
        self, tx: SqliteTx, lease: Lease, name: str, wrong: str
    ) -> None:
        assert tx.rows(name, **fence(lease)) == []  # it runs
        tx.rows("end_attempt", **fence(lease), **BY_LEASE["end_attempt"] | {"stopped": 0})
        tx.rows("end_running", **fence(lease), **BY_LEASE["end_running"])
        identity = fence(lease)
        identity[wrong] += 1

        assert tx.rows(name, **identity) == []
        assert len(tx.rows(name, **fence(lease))) == 1

    async def test_progress_of_an_ended_attempt_or_another_token_is_not_taken(self, tx: SqliteTx, lease: Lease) -> None:
        for identity in (fence(lease) | {"token": lease.token + 1}, fence(lease) | {"attempt": 2}):
            tx.rows("say_progress", **identity, fraction=0.9, message="stale", wall_ms=1)
        tx.rows("end_attempt", **fence(lease), **BY_LEASE["end_attempt"])
        tx.rows("say_progress", **fence(lease), fraction=0.9, message="stale", wall_ms=1)

        [row] = tx.rows("job_row", job_id=lease.job_id, namespace=None)

        assert (row["fraction"], row["message"]) == (None, None)

    @pytest.mark.parametrize(("state", "is_open"), [("queued", True), ("running", True), ("finished", False)])
    async def test_only_an_open_job_is_joined(
        self, tx: SqliteTx, lease: Lease, waiting: str, state: str, is_open: bool
    ) -> None:
        job_id = waiting if state == "queued" else lease.job_id
        if not is_open:
            tx.rows("end_running", **fence(lease), **BY_LEASE["end_running"])

        assert bool(tx.rows("join_job", job_id=job_id, priority=1, deadline_at_ms=None)) == is_open

    async def test_a_proof_of_death_says_nothing_of_an_attempt_that_is_still_open(
        self, tx: SqliteTx, lease: Lease
    ) -> None:
        """Its lease is ended first; else a crash in between would leave a running job without a process."""
        tx.rows("all_stopped", incarnation="w1")

        assert tx.rows("live_tokens", tokens=f"[{lease.token}]", silent_since_ms=0) == [{"token": lease.token}]

    async def test_a_proof_of_death_says_nothing_of_another_worker(self, tx: SqliteTx, lease: Lease) -> None:
        tx.rows("end_attempt", **fence(lease), **BY_LEASE["end_attempt"] | {"stopped": 0})
        tx.rows("all_stopped", incarnation="w2")

        assert tx.rows("live_tokens", tokens=f"[{lease.token}]", silent_since_ms=0) == [{"token": lease.token}]

    async def test_the_key_of_an_open_job_is_not_taken_from_it(self, tx: SqliteTx, waiting: str) -> None:
        tx.rows("give_key", job_id=waiting, key_open=0)

        assert tx._connection.execute("SELECT key_open FROM job WHERE job_id = ?", (waiting,)).fetchall() == [(1,)]

    async def test_who_was_not_seen_for_long_is_not_seen_again_by_his_death(self, tx: SqliteTx) -> None:
        tx.rows("see_workers", incarnations='["w1"]', wall_ms=5)
        for before_ms in (3, 4):
            tx.rows("unsee_worker", incarnation="w1", before_ms=before_ms)

        assert [row["seen_at_ms"] for row in tx.rows("workers", since_ms=0)] == [2]


class TestSecondAttempt:
    def go_on(self, tx: SqliteTx, lease: Lease, *, checkpoint: str = "[]") -> Row:
        """The job is granted once more: what its new holder is known by."""
        tx.rows("end_attempt", **fence(lease), **BY_LEASE["end_attempt"])
        tx.rows("requeue", **fence(lease), **BY_LEASE["requeue"] | {"checkpoint": checkpoint})
        second = {"job_id": lease.job_id, "attempt": 2, "token": lease.token + 1}
        tx.rows("grant", **second, incarnation="w1", epoch="boot", now_ms=1, lease_ms=1)
        tx.rows("insert_attempt", **second, nonce="n2", incarnation="w1", wall_ms=1)
        return second

    async def test_what_is_staged_is_of_one_attempt(self, tx: SqliteTx, lease: Lease) -> None:
        second = self.go_on(tx, lease)
        tx.rows("stage", **second, staged='["theirs"]')

        staged = tx._connection.execute("SELECT staged FROM attempt ORDER BY attempt").fetchall()
        assert staged == [(None,), ('["theirs"]',)]

    @pytest.mark.parametrize("checkpoint", ["[]", '[{"attempt":1,"seq":1}]'])
    async def test_what_a_live_job_may_resume_from_is_not_called_collected(
        self, tx: SqliteTx, lease: Lease, checkpoint: str
    ) -> None:
        second = self.go_on(tx, lease, checkpoint=checkpoint)
        assert len(tx.rows("collected", **fence(lease))) == (checkpoint == "[]")
        tx.rows("end_running", **second, **BY_LEASE["end_running"])

        assert len(tx.rows("collected", **fence(lease))) == 1


class TestClosing:
    """What stands in the store is written here: a look, then a change by somebody else, then the write."""

    ADOPTION: ClassVar[dict[str, Row]] = {
        "close_job": {},
        "adopt_end": {"state": "canceled", "reason": None, "ended_at_ms": 5},
        "adopt_result": {
            "won_attempt": 1,
            "won_token": 7,
            "state": "canceled",
            "outputs": "[]",
            "value": None,
            "error": None,
        },
    }

    @pytest.fixture
    def closing(self, tx: SqliteTx, lease: Lease) -> Row:
        """A job that has finished, and whose answer was not said, as somebody looks at it."""
        tx.rows("set_meta", k="strict", v=1)
        tx.rows("end_attempt", **fence(lease), **BY_LEASE["end_attempt"])
        tx.rows("end_running", **fence(lease), **BY_LEASE["end_running"])
        tx.rows("insert_result", **fence(lease), status="finished", outputs="[]", value=None, error=None)
        return {"job_id": lease.job_id, "attempt": lease.attempt}

    def answer(self, tx: SqliteTx) -> list[Any]:
        return tx._connection.execute("SELECT state, status, closing FROM job JOIN result USING (job_id)").fetchall()

    @pytest.mark.parametrize("name", ADOPTION)
    async def test_only_what_is_closing_at_the_attempt_that_was_read_is_adopted(
        self, tx: SqliteTx, closing: Row, name: str
    ) -> None:
        if name != "adopt_result":  # names none: a closing job stays at its attempt
            tx.rows(name, **closing | {"attempt": 2}, **self.ADOPTION[name])
            assert self.answer(tx) == [("finished", "finished", 1)]
        tx.rows("close_job", **closing)

        tx.rows(name, **closing, **self.ADOPTION[name])
        assert self.answer(tx) == [("finished", "finished", 0)]

    async def test_only_what_is_open_at_the_attempt_that_was_read_ends_elsewhere(
        self, tx: SqliteTx, closing: Row, waiting: str
    ) -> None:
        won = {"won_attempt": 3, "ended_at_ms": 5}
        assert tx.rows("end_elsewhere", job_id=waiting, attempt=2, **won) == []
        assert tx.rows("end_elsewhere", job_id=waiting, attempt=1, **won) == [{"attempt": 3}]

        assert tx.rows("end_elsewhere", **closing, **won) == []
