"""C73: what a look at a full ledger costs, counted in the database's own steps: a busy machine changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import apsw
import pytest

from bench.listing import NAMES, VALUES, fill, filters
from planrun.clock import Instant, SystemClock
from planrun.core.listing import ListQuery
from planrun.core.messages import Handler
from planrun.core.offers import OfferQuery
from planrun.ledger.sqlite.database import connect
from planrun.ledger.sqlite.migrating import migrate
from planrun.ledger.sqlite.writer import SqliteTx
from planrun.ledger.tx import Tx
from planrun.ledger.verbs import fleet, listing, outlook, pausing, reading

JOBS = 100_000
STEPS_MAX = 30_000  # a scan of that many jobs takes ten times as many
EVERY = 100
LINE = OfferQuery(
    namespaces=("default",), handlers=(Handler(kind="kind-1", version="v1"),), capabilities=(), limit=9, oldest_at=0
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    path = tmp_path_factory.mktemp("full") / "ledger.db"
    making = connect(path)
    migrate(making, path)
    making.close()
    fill(path, ended=JOBS - 1_000, waiting=1_000)
    connection = connect(path, read_only=True)
    yield connection
    connection.close()


def steps_of(connection: apsw.Connection, ask: Callable[[Tx], Any]) -> int:
    counted = 0

    def count() -> bool:
        nonlocal counted
        counted += EVERY
        return False

    connection.set_progress_handler(count, EVERY)
    try:
        ask(SqliteTx(connection, _now()))
    finally:
        connection.set_progress_handler(None)
    return counted


@pytest.mark.parametrize("word", VALUES)
@pytest.mark.parametrize("before", [None, JOBS // 2])
def test_no_page_costs_what_the_ledger_holds_whatever_it_is_filtered_by(
    connection: apsw.Connection, word: str, before: int | None
) -> None:
    for asked in filters(dict(zip(NAMES, VALUES[word], strict=True))):
        since_s = asked.pop("since_s", None)
        since_ms = None if since_s is None else _now().wall_ms - int(min(since_s, 60) * 1000)
        query = ListQuery(**asked, since_ms=since_ms, before=before)

        steps = steps_of(connection, partial(listing.jobs, query=query))

        assert steps <= STEPS_MAX, f"{query}: {steps} steps"


@pytest.mark.parametrize(
    "ask",
    [
        partial(reading.counts, namespace=None),
        partial(reading.counts, namespace="team-3"),
        partial(reading.job, namespace=None, job_id=f"job-{JOBS // 2:032d}"),
        partial(reading.job, namespace=None, job_id=f"request-{JOBS // 2}"),
        partial(reading.events, job_id=f"job-{JOBS // 2:032d}"),
        partial(reading.attempts, job_id=f"job-{JOBS // 2:032d}"),
        partial(outlook.outlook, job_id=f"job-{JOBS - 5:032d}"),
        partial(pausing.pauses, limit=50),
        partial(fleet.offers, query=LINE),
        outlook.open_jobs,
        fleet.workers,
    ],
    ids=lambda ask: getattr(ask, "func", ask).__name__,
)
def test_no_other_question_costs_what_the_ledger_holds(connection: apsw.Connection, ask: Callable[[Tx], Any]) -> None:
    assert steps_of(connection, ask) <= STEPS_MAX


def test_the_measure_sees_a_scan(connection: apsw.Connection) -> None:
    assert steps_of(connection, reading.violations) > STEPS_MAX


def _now() -> Instant:
    return SystemClock.open_system().now()
