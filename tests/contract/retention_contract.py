"""What was kept long enough goes, in the right order, and nothing else does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from planrun.core.errors import ResultGone
from planrun.core.keeping import BATCH_MAX, DOUBT_MS, Archived, Keep, Stale
from planrun.core.life import Outcome, State
from planrun.core.messages import AttemptRow, EventRow, Handler, JobRow, Lease, Result
from planrun.ledger.contract import Ledger

from .actors import KIND, Actors, a_worker, an_output
from .ledger_contract import LedgerContract
from .manual_clock import ManualClock

DAY_S = 86_400


async def finished(they: Actors, **given: Any) -> Lease:
    """A job that finished, whose worker let go of its files."""
    lease = await they.running(**given)
    await they.succeed(lease, value={"frames": 24})
    await they.ledger.stopped(lease, "w1")
    return lease


async def collect(ledger: Ledger) -> list[str]:
    """What the collector would delete of these attempts' own outputs; then they are collected."""
    gone = []
    for garbage in await ledger.garbage(grace_ms=0, limit=1000):
        gone += [] if an_output(garbage.lease).key in garbage.keep else [garbage.lease.job_id]
        if garbage.final:
            await ledger.collected(garbage.lease)
    return gone


async def drop(ledger: Ledger, *, archive: bool = True) -> Stale:
    """One batch, as the duty does it."""
    stale = await ledger.stale(limit=BATCH_MAX)
    records = await ledger.records(stale.jobs) if archive else []
    return await ledger.drop(stale, archived={record.job_id: record.seen for record in records})


async def archived(they: Actors, job_ids: Sequence[str]) -> None:
    """Let jobs go all the way to the archive."""
    they.clock.advance(15 * DAY_S)
    await drop(they.ledger)
    await collect(they.ledger)
    assert set((await drop(they.ledger)).jobs) == set(job_ids)


class RetentionContract(LedgerContract):
    async def test_a_result_is_kept_14_days_unless_its_kind_says_otherwise(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        """Also when no worker of the kind is known any more, and whatever end it was."""
        brief = Handler(kind="brief", version="v1", result_ttl_s=DAY_S)
        await they.register("w1", handlers=(Handler(kind=KIND, version="v1"), brief))
        plain, short = await finished(they), await finished(they, kind="brief")
        unknown = (await they.submit(kind="unheard-of")).job_id
        await they.cancel(unknown)

        clock.advance(DAY_S - 1)
        assert (await drop(ledger)).results == ()
        clock.advance(1)
        assert (await drop(ledger)).results == (short.job_id,)
        clock.advance(13 * DAY_S - 1)
        assert (await drop(ledger)).results == ()
        clock.advance(1)
        assert set((await drop(ledger)).results) == {plain.job_id, unknown}
        assert await ledger.violations() == []

    async def test_who_may_not_shorten_how_long_results_are_kept_may_lengthen_it(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        lease = await finished(they)
        for seconds, may_shorten in ((60, True), (90, False), (1, False)):
            handler = Handler(kind=KIND, version="v1", result_ttl_s=seconds)
            await ledger.register(a_worker("w2", handlers=(handler,)), may_shorten=may_shorten)

        clock.advance(89)
        assert (await ledger.stale(limit=9)).results == ()
        clock.advance(1)
        assert (await ledger.stale(limit=9)).results == (lease.job_id,)

    async def test_the_last_word_about_a_kind_is_right(self, they: Actors, ledger: Ledger, clock: ManualClock) -> None:
        await they.register("w1", handlers=(Handler(kind=KIND, version="v1", result_ttl_s=60),))
        lease = await finished(they)
        await they.register("w2", handlers=(Handler(kind=KIND, version="v1", result_ttl_s=120),))

        clock.advance(119)
        assert (await ledger.stale(limit=10)).results == ()
        clock.advance(1)
        assert (await ledger.stale(limit=10)).results == (lease.job_id,)

    async def test_a_result_that_is_gone_is_nobodys_and_its_job_still_says_how_it_ended(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        """C61: neither unknown nor running."""
        lease = await finished(they)
        clock.advance(14 * DAY_S)
        await drop(ledger)

        assert await ledger.result(lease.job_id) is None
        assert (await they.row(lease.job_id)).state is State.FINISHED
        assert [event.what for event in await ledger.events(lease.job_id)]
        await finished(they)
        assert await ledger.ended(0) == {"finished": 2}
        assert await ledger.ended(clock.wall_ms - 1_000) == {"finished": 1}

    async def test_the_row_says_gone_before_the_files_are_garbage(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        lease = await finished(they)
        clock.advance(14 * DAY_S)
        assert await collect(ledger) == []

        await drop(ledger)

        assert await collect(ledger) == [lease.job_id]
        assert await collect(ledger) == []

    async def test_a_result_that_is_gone_frees_its_key_for_a_new_job(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        first = await finished(they, key="k")
        clock.advance(14 * DAY_S)
        assert (await they.submit(key="k")).disposition == "answered"
        await drop(ledger)

        again = await they.submit(key="k", content="other")

        assert (again.disposition, again.state) == ("new", State.QUEUED)
        assert again.job_id != first.job_id

    @pytest.mark.parametrize("is_archived", [False, True])
    async def test_a_repeated_request_never_makes_a_second_job_and_who_wants_the_answer_sent_is_refused(
        self, they: Actors, ledger: Ledger, clock: ManualClock, is_archived: bool
    ) -> None:
        lease = await finished(they, request_id="r1")
        if is_archived:
            await archived(they, [lease.job_id])
        else:
            clock.advance(14 * DAY_S)
            await drop(ledger)

        again = await they.submit(request_id="r1")

        assert (again.job_id, again.disposition, again.state) == (lease.job_id, "repeated", State.FINISHED)
        with pytest.raises(ResultGone, match=r"fresh request id"):
            await they.submit(request_id="r1", subscribers=("webhook:https://x.example",))
        assert await ledger.violations() == []

    async def test_nothing_of_a_job_goes_while_a_message_of_it_is_owed(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        lease = await finished(they, subscribers=("webhook:https://a.example", "webhook:https://b.example"))
        await ledger.confirm(f"result:{lease.job_id}:webhook:https://a.example")
        clock.advance(100 * DAY_S)

        assert (await drop(ledger)).results == ()
        assert (await they.result(lease.job_id)).value == {"frames": 24}
        await ledger.confirm(f"result:{lease.job_id}:webhook:https://b.example")
        assert (await drop(ledger)).results == (lease.job_id,)

    async def test_a_message_that_comes_to_be_owed_after_the_look_keeps_the_result(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        lease = await finished(they, request_id="r1")
        clock.advance(14 * DAY_S)
        stale = await ledger.stale(limit=10)
        await they.submit(request_id="r1", subscribers=("webhook:https://x.example",))

        assert (await ledger.drop(stale, archived={})).results == ()
        assert (await they.result(lease.job_id)).value == {"frames": 24}

    async def test_a_message_goes_a_day_after_it_was_confirmed_and_is_never_owed_again(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        lease = await finished(they, request_id="r1", subscribers=("webhook:https://x.example",))
        msg_id = f"result:{lease.job_id}:webhook:https://x.example"
        await ledger.confirm(msg_id)
        clock.advance(DAY_S - 1)
        assert (await drop(ledger)).messages == ()
        clock.advance(1)
        assert (await drop(ledger)).messages == (msg_id,)

        await they.submit(request_id="r1", subscribers=("webhook:https://x.example", "webhook:https://y.example"))

        assert list(await they.bodies()) == [f"result:{lease.job_id}:webhook:https://y.example"]
        assert await ledger.violations() == []

    async def test_a_job_goes_to_the_archive_with_all_that_is_known_of_it(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        lost = await they.running(request_id="r1")
        await they.expire_all()
        await ledger.stopped(lost, "w1")
        lease = await they.grant(lost.job_id, by="w2")
        await they.succeed(lease, value={"frames": 24})
        await ledger.stopped(lease, "w2")
        answer = await they.result(lease.job_id)
        clock.advance(14 * DAY_S)
        await drop(ledger)
        await collect(ledger)
        [record] = await ledger.records([lease.job_id])

        await drop(ledger)

        whole = json.loads(record.line)
        read = {name: msgspec.json.encode(part) for name, part in whole.items()}
        assert msgspec.json.decode(read["job"], type=JobRow).state is State.FINISHED
        assert [a.outcome for a in msgspec.json.decode(read["attempts"], type=list[AttemptRow])] == ["lost", "success"]
        assert "submitted" in [event.what for event in msgspec.json.decode(read["events"], type=list[EventRow])]
        assert msgspec.json.decode(read["result"], type=Result) == answer
        assert await ledger.job(None, lease.job_id) is None
        assert await ledger.attempts(lease.job_id) == []
        assert await ledger.events(lease.job_id) == []
        for name in ("r1", lease.job_id):
            assert await ledger.archived("default", name) == Archived(
                job_id=lease.job_id,
                namespace="default",
                state=State.FINISHED,
                ended_at_ms=answer.ended_at_ms,
                archived_at_ms=clock.wall_ms,
            )
            assert await ledger.archived("another", name) is None
        assert await ledger.violations() == []

    async def test_a_job_stays_as_long_as_its_result_and_its_files(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        await they.register("w1", handlers=(Handler(kind=KIND, version="v1", result_ttl_s=30 * DAY_S),))
        lease = await finished(they)
        clock.advance(30 * DAY_S - 1)
        assert (await drop(ledger)).jobs == ()
        clock.advance(1)
        assert (await drop(ledger)).results == (lease.job_id,)
        assert (await drop(ledger)).jobs == ()
        await collect(ledger)
        assert (await drop(ledger)).jobs == (lease.job_id,)

    async def test_a_job_whose_record_is_not_in_the_archive_stays(self, they: Actors, clock: ManualClock) -> None:
        lease = await finished(they)
        clock.advance(15 * DAY_S)
        await drop(they.ledger)
        await collect(they.ledger)

        assert (await drop(they.ledger, archive=False)).jobs == ()
        assert (await they.row(lease.job_id)).state is State.FINISHED

    async def test_a_job_of_which_more_became_known_since_its_record_was_read_stays(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        lease = await they.running()
        await they.fail(lease, Outcome.PERMANENT)
        await ledger.stopped(lease, "w1")
        clock.advance(15 * DAY_S)
        await drop(ledger)
        await collect(ledger)
        stale = await ledger.stale(limit=10)
        [record] = await ledger.records(stale.jobs)
        await they.submit(retry_of=lease.job_id)

        assert (await ledger.drop(stale, archived={record.job_id: record.seen})).jobs == ()
        assert (await drop(ledger)).jobs == (lease.job_id,)

    async def test_how_long_jobs_stay_is_said_once_for_all(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        lease = await finished(they)
        await ledger.keep(Keep(job_ttl_s=60 * DAY_S))
        clock.advance(14 * DAY_S)
        await drop(ledger)
        await collect(ledger)
        clock.advance(46 * DAY_S - 1)
        assert (await drop(ledger)).jobs == ()
        clock.advance(1)
        assert (await drop(ledger)).jobs == (lease.job_id,)

    async def test_ids_are_known_90_days_longer_than_their_job_and_then_a_request_id_is_free(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        lease = await finished(they, request_id="r1")
        await archived(they, [lease.job_id])
        clock.advance(90 * DAY_S - 1)
        assert (await drop(ledger)).ids == ()
        clock.advance(1)
        assert (await drop(ledger)).ids == (lease.job_id,)

        assert await ledger.archived(None, "r1") is None
        assert (await they.submit(request_id="r1")).disposition == "new"

    async def test_a_worker_goes_a_month_after_it_was_seen_unless_it_may_still_run_something(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        await they.register("idle")
        held = await they.running(by="holder")
        await they.cancel(held.job_id)  # its process tree is not known to be dead
        clock.advance(30 * DAY_S - 1)
        assert (await drop(ledger)).workers == ()
        clock.advance(1)

        assert (await drop(ledger)).workers == ("idle",)
        await ledger.stopped(held, "holder")
        assert (await drop(ledger)).workers == ("holder",)

    async def test_a_worker_that_is_seen_again_after_the_look_stays(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        await they.register("w1")
        clock.advance(30 * DAY_S)
        stale = await ledger.stale(limit=10)
        await they.register("w1")

        assert (await ledger.drop(stale, archived={})).workers == ()

    async def test_open_jobs_are_never_stale(self, they: Actors, ledger: Ledger, clock: ManualClock) -> None:
        await they.running()
        await they.submit()
        clock.advance(1000 * DAY_S)

        assert (await ledger.stale(limit=10)).most == 0

    async def test_everything_comes_in_bounded_batches_oldest_first(self, they: Actors, clock: ManualClock) -> None:
        await they.register("w1", handlers=(Handler(kind=KIND, version="v1"), Handler(kind="b", version="v1")))
        leases = []
        for kind in (KIND, KIND, "b", "b"):
            leases.append(await finished(they, kind=kind))
            clock.advance(1)
        clock.advance(15 * DAY_S)

        assert len((await they.ledger.stale(limit=3)).results) == 3
        assert await they.ledger.stale(limit=1) == Stale(results=(leases[2].job_id,))

    async def test_a_clock_set_a_year_ahead_and_back_makes_nothing_stale_in_between(
        self, ledger: Ledger, clock: ManualClock
    ) -> None:
        """The duty asks before it drops: for a day of running time after a step the answer is no."""
        assert await ledger.doubt() == DOUBT_MS
        clock.advance(DAY_S)
        assert await ledger.doubt() == 0

        clock.jump_wall(365 * DAY_S)
        assert await ledger.doubt() == DOUBT_MS
        clock.advance(DAY_S / 2)
        assert await ledger.doubt() == DOUBT_MS / 2
        clock.jump_wall(-365 * DAY_S)
        assert await ledger.doubt() == DOUBT_MS
        clock.advance(DAY_S)
        assert await ledger.doubt() == 0

    async def test_a_clock_that_is_wrong_after_a_reboot_is_doubted_too(
        self, ledger: Ledger, clock: ManualClock
    ) -> None:
        await ledger.doubt()
        clock.advance(DAY_S)
        await ledger.doubt()
        clock.reboot(off_s=3600)
        assert await ledger.doubt() == 0
        clock.reboot(off_s=365 * DAY_S)
        assert await ledger.doubt() == DOUBT_MS
