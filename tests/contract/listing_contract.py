"""Listings and counts: the same answer as looking at every job, whatever was asked for and in whatever pages."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

from planrun.core.coverage import OpenJobs
from planrun.core.life import Outcome, State
from planrun.core.listing import ListQuery
from planrun.core.messages import Handler, JobRow
from planrun.ledger.contract import Ledger

from .actors import Actors
from .ledger_contract import LedgerContract
from .manual_clock import ManualClock

NAMESPACES = ("ads", "default")
KINDS = ("poster", "preview")
VERSIONS = ("v1", "v2")


class ListingContract(LedgerContract):
    async def test_every_filter_and_all_of_them_together_find_what_a_look_at_each_job_finds(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        everything = await _a_crowd(they, clock)
        middle_ms = everything[len(everything) // 2].created_at_ms
        choices: dict[str, list[Any]] = {
            "namespace": [None, "default", "nobody"],
            "namespaces": [None, ("ads", "nobody")],
            "kind": [None, "poster"],
            "version": [None, "v2"],
            "state": [None, State.FAILED, State.QUEUED],
            "key": [None, "k1", "none"],
            "since_ms": [None, middle_ms, clock.wall_ms + 1],
        }
        for values in itertools.product(*choices.values()):
            asked = dict(zip(choices, values, strict=True))

            seen = await _all_pages(ledger, limit=7, **asked)

            assert seen == [row.job_id for row in everything if _matches(row, asked)], asked

    async def test_since_finds_what_was_stamped_before_the_clock_was_set_back(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        before = [(await they.submit()).job_id for _ in range(2)]
        since_ms = clock.wall_ms
        clock.jump_wall(-3600)
        await they.submit()
        clock.jump_wall(7200)
        after = (await they.submit()).job_id

        assert await _all_pages(ledger, since_ms=since_ms) == [after, *before[::-1]]

    async def test_counts_and_open_jobs_are_those_of_the_jobs_that_are_there(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        everything = await _a_crowd(they, clock)
        open_ones = Counter(
            (row.namespace, row.kind, row.version, row.state)
            for row in everything
            if row.state in (State.QUEUED, State.RUNNING)
        )
        for namespace in (None, *NAMESPACES, "nobody"):
            states = Counter(row.state for row in everything if namespace in (None, row.namespace))
            assert await ledger.counts(namespace) == {state.value: states[state] for state in State}
        assert await ledger.open_jobs() == [
            OpenJobs(
                namespace=namespace,
                kind=kind,
                version=version,
                queued=open_ones[namespace, kind, version, State.QUEUED],
                running=open_ones[namespace, kind, version, State.RUNNING],
            )
            for namespace, kind, version in sorted({found[:3] for found in open_ones})
        ]
        assert await ledger.violations() == []


async def _a_crowd(they: Actors, clock: ManualClock) -> list[JobRow]:
    """Jobs of every sort in every state, newest first."""
    luck = random.Random(3)
    ids = []
    handlers = tuple(Handler(kind=kind, version=version) for kind in KINDS for version in VERSIONS)
    await they.register("w1", namespaces=NAMESPACES, handlers=handlers)
    for n in range(150):
        clock.advance(luck.choice((0, 1)))
        key = luck.choice((None, "k1", f"other-{n}"))
        namespace, kind, version = luck.choice(NAMESPACES), luck.choice(KINDS), luck.choice(VERSIONS)
        reply = await they.submit(
            namespace=namespace,
            kind=kind,
            version=version,
            key=key,
            delay_s=luck.choice((0, 0, 60)),
            priority=luck.choice((0, 0, 5, -3)),
            content=n * (key != "k1"),
        )
        if reply.disposition != "new":
            continue
        ids.append(reply.job_id)
        match luck.choice(("waits", "runs", "ends", "fails", "again", "canceled")):
            case "runs":
                await they.grant(reply.job_id)
            case "ends":
                await they.succeed(await they.grant(reply.job_id))
            case "fails":
                await they.fail(await they.grant(reply.job_id), Outcome.PERMANENT)
            case "again":
                await they.fail(await they.grant(reply.job_id))
            case "canceled":
                await they.cancel(reply.job_id, namespace=namespace)
    return [await they.row(job_id) for job_id in reversed(ids)]


def _matches(row: JobRow, asked: dict[str, Any]) -> bool:
    since_ms = asked["since_ms"]
    plain = (asked[name] in (None, getattr(row, name)) for name in ("namespace", "kind", "version", "state", "key"))
    among = asked["namespaces"]
    return (
        all(plain) and (among is None or row.namespace in among) and (since_ms is None or row.created_at_ms >= since_ms)
    )


async def _all_pages(ledger: Ledger, *, limit: int = 50, **asked: Any) -> list[str]:
    seen: list[str] = []
    before: int | None = None
    while True:
        page, before = await ledger.jobs(ListQuery(limit=limit, before=before, **asked))
        seen += [row.job_id for row in page]
        assert len(page) <= limit
        if before is None:
            return seen
        assert len(page) == limit
