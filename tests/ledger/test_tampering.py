"""The second line: what a wrong statement or a curious person tries, the file itself refuses or `check` finds."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from planrun.core.life import Outcome
from planrun.core.messages import CancelRequest, Granted, GrantRequest, SettleRequest
from planrun.ledger.contract import Ledger

from .plain import a_request, a_worker

pytestmark = pytest.mark.anyio


@pytest.fixture
async def jobs(ledger: Ledger) -> dict[str, str]:
    """One job in every state, by its state."""
    await ledger.register(a_worker("w1"))
    ids = {}
    for state in ("queued", "running", "finished", "failed", "canceled"):
        [reply] = await ledger.submit([a_request(state)])
        ids[state] = reply.job_id
        if state in ("queued", "canceled"):
            continue
        grant = GrantRequest(job_id=reply.job_id, attempt=1, incarnation="w1", nonce=state, lease_ms=60_000)
        granted = await ledger.grant(grant)
        assert isinstance(granted, Granted)
        if state != "running":
            outcome = Outcome.SUCCESS if state == "finished" else Outcome.PERMANENT
            await ledger.settle(SettleRequest(lease=granted.lease, outcome=outcome))
    await ledger.cancel(CancelRequest(namespace="default", job_id=ids["canceled"]))
    assert await ledger.violations() == []
    return ids


@pytest.fixture
def connection(ledger: Ledger, path: Path) -> apsw.Connection:
    return apsw.Connection(str(path))


@pytest.mark.parametrize("state", ["finished", "failed", "canceled"])
@pytest.mark.parametrize(
    "change", ["state = 'queued', reason = NULL, ended_at_ms = NULL", "attempt = attempt + 1", "token = 7"]
)
async def test_an_ended_job_cannot_be_changed(
    connection: apsw.Connection, jobs: dict[str, str], state: str, change: str
) -> None:
    with pytest.raises(apsw.ConstraintError, match="S1: an ended job changed"):
        connection.execute(f"UPDATE job SET {change} WHERE job_id = ?", (jobs[state],))


@pytest.mark.parametrize("state", ["queued", "running"])
async def test_an_attempt_cannot_go_back(connection: apsw.Connection, jobs: dict[str, str], state: str) -> None:
    connection.execute("UPDATE job SET attempt = 5 WHERE job_id = ?", (jobs[state],))

    with pytest.raises(apsw.ConstraintError, match="S4: attempt went backwards"):
        connection.execute("UPDATE job SET attempt = 4 WHERE job_id = ?", (jobs[state],))


@pytest.mark.parametrize("column", ["attempt", "token", "status", "outputs", "value", "error"])
async def test_a_result_cannot_be_changed(connection: apsw.Connection, jobs: dict[str, str], column: str) -> None:
    with pytest.raises(apsw.ConstraintError, match="S1: a result changed"):
        connection.execute(f"UPDATE result SET {column} = {column} WHERE job_id = ?", (jobs["finished"],))


@pytest.mark.parametrize("state", ["queued", "finished", "failed", "canceled"])
async def test_an_answer_that_was_said_cannot_be_taken_back(
    connection: apsw.Connection, jobs: dict[str, str], state: str
) -> None:
    with pytest.raises(apsw.ConstraintError, match="S1: an answer that was said was taken back"):
        connection.execute("UPDATE job SET closing = 1 WHERE job_id = ?", (jobs[state],))


@pytest.mark.parametrize("change", ["state = 'queued'", "attempt = attempt + 1", "token = 7", "state = 'canceled'"])
async def test_a_closing_job_changes_only_into_a_closed_one(
    connection: apsw.Connection, jobs: dict[str, str], change: str
) -> None:
    """Not even its end changes while it stays closing, and it does not come back to life."""
    connection.execute("INSERT INTO meta(k, v) VALUES ('strict', 1)")
    connection.execute(
        "UPDATE job SET state = 'canceled', token = NULL, incarnation = NULL, lease_until_ms = NULL, ended_at_ms = 1,"
        " closing = 1 WHERE job_id = ?",
        (jobs["running"],),
    )

    with pytest.raises(apsw.ConstraintError):
        connection.execute(f"UPDATE job SET {change} WHERE job_id = ?", (jobs["running"],))
    if "canceled" not in change:
        with pytest.raises(apsw.ConstraintError):
            connection.execute(f"UPDATE job SET {change}, closing = 0 WHERE job_id = ?", (jobs["running"],))


@pytest.mark.parametrize("state", ["queued", "running"])
async def test_a_live_job_cannot_have_a_result(connection: apsw.Connection, jobs: dict[str, str], state: str) -> None:
    with pytest.raises(apsw.ConstraintError, match="S1: a result of a live job"):
        connection.execute("INSERT INTO result(job_id, attempt, status) VALUES (?, 1, 'finished')", (jobs[state],))


async def test_a_job_has_at_most_one_result(connection: apsw.Connection, jobs: dict[str, str]) -> None:
    with pytest.raises(apsw.ConstraintError, match="UNIQUE"):
        connection.execute("INSERT INTO result(job_id, attempt, status) VALUES (?, 1, 'finished')", (jobs["finished"],))


@pytest.mark.parametrize(
    ("state", "change"),
    [
        ("queued", "token = 7"),
        ("queued", "lease_until_ms = 7"),
        ("queued", "state = 'running'"),
        ("queued", "state = 'asleep'"),
        ("queued", "state = 'failed', ended_at_ms = 1"),
        ("queued", "state = 'finished'"),
        ("queued", "reason = 'permanent'"),
        ("queued", "ended_at_ms = 1"),
        ("queued", "failures = max_attempts + 1"),
        ("queued", "losses = max_losses + 1"),
        ("queued", "handbacks = max_handbacks + 2"),
        ("queued", "priority = 'high'"),
        ("running", "token = NULL"),
        ("running", "lease_until_ms = NULL"),
        ("running", "incarnation = NULL"),
        ("running", "state = 'queued'"),
    ],
)
async def test_a_row_that_makes_no_sense_is_refused(
    connection: apsw.Connection, jobs: dict[str, str], state: str, change: str
) -> None:
    with pytest.raises(apsw.ConstraintError):
        connection.execute(f"UPDATE job SET {change} WHERE job_id = ?", (jobs[state],))


async def test_two_attempts_never_share_a_token(connection: apsw.Connection, jobs: dict[str, str]) -> None:
    with pytest.raises(apsw.ConstraintError, match=r"UNIQUE.*token"):
        connection.execute(
            "INSERT INTO attempt(job_id, attempt, token, nonce, incarnation, granted_at_ms)"
            " SELECT job_id, 2, token, 'n', 'w1', 1 FROM attempt WHERE job_id = ?",
            (jobs["running"],),
        )


async def test_two_open_jobs_never_share_a_key(connection: apsw.Connection, jobs: dict[str, str]) -> None:
    connection.execute("UPDATE job SET key = 'k' WHERE job_id = ?", (jobs["queued"],))

    with pytest.raises(apsw.ConstraintError, match=r"UNIQUE.*key"):
        connection.execute("UPDATE job SET key = 'k' WHERE job_id = ?", (jobs["running"],))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("DELETE FROM attempt WHERE job_id = :running", "job {running} runs, but its attempt 1 is not open"),
        ("DELETE FROM worker", "job {running} runs for a worker that the ledger does not know"),
        (
            "UPDATE attempt SET outcome = NULL, ended_at_ms = NULL WHERE job_id = :finished",
            "attempt 1 of job {finished} is open, but the job does not run under it",
        ),
        ("DELETE FROM result WHERE job_id = :failed", "job {failed} has ended without a result"),
        (
            "UPDATE attempt SET outcome = 'lost' WHERE job_id = :finished",
            "job {finished} finished by a token that did not win",
        ),
        (
            "INSERT INTO subscriber(job_id, route) VALUES (:finished, 'webhook:x')",
            "job {finished} has ended, but webhook:x is not owed its answer",
        ),
        (
            "INSERT INTO outbox(msg_id, route, body) VALUES ('result:' || :finished || ':webhook:x', 'webhook:x', '');"
            "UPDATE job SET result_gone_at_ms = 1 WHERE job_id = :finished",
            "job {finished} has no result any more, but webhook:x is owed it",
        ),
        (
            "UPDATE job SET not_before_ms = 9000000000000000 WHERE job_id = :queued",
            "job {queued} waits longer than any rule allows",
        ),
        (
            "INSERT INTO tally VALUES ('default', 'preview', 'v1', 'open', 6)",
            "the tally has 7 queued jobs of default/preview v1, there are 1",
        ),
        (
            "INSERT INTO tally VALUES ('default', 'preview', 'v1', 'failed', -1)",
            "the tally has 0 failed jobs of default/preview v1, there are 1",
        ),
        (
            "INSERT INTO tally VALUES ('ads', 'preview', 'v1', 'open', 2)",
            "the tally has 2 queued jobs of ads/preview v1, there are none",
        ),
    ],
)
async def test_what_the_file_cannot_refuse_is_found_by_the_check(
    ledger: Ledger, connection: apsw.Connection, jobs: dict[str, str], change: str, words: str
) -> None:
    connection.execute(change, jobs)

    assert words.format(**jobs) in await ledger.violations()


async def test_a_job_that_is_removed_is_no_longer_counted(
    ledger: Ledger, connection: apsw.Connection, jobs: dict[str, str]
) -> None:
    connection.execute("DELETE FROM result WHERE job_id = :finished; DELETE FROM job WHERE job_id = :finished", jobs)

    assert await ledger.counts(None) == {"queued": 1, "running": 1, "finished": 0, "failed": 1, "canceled": 1}
    assert connection.execute("SELECT count(*) FROM tally WHERE jobs = 0").get == 0
