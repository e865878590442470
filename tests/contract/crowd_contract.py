"""Reading, and several parties on one ledger: what one wrote the other sees, and is woken by."""

from __future__ import annotations

import asyncio
import time

import pytest

from planrun.core.errors import Conflict
from planrun.core.life import Outcome
from planrun.core.listing import ListQuery
from planrun.core.messages import CancelRequest
from planrun.ledger.contract import Ledger

from .actors import Actors, a_request
from .ledger_contract import LedgerContract, OpenLedger
from .manual_clock import ManualClock


class CrowdContract(LedgerContract):
    async def test_an_empty_ledger_answers_every_question(self, ledger: Ledger) -> None:
        assert await ledger.job(None, "nobody") is None
        assert await ledger.result("nobody") is None
        assert await ledger.jobs(ListQuery()) == ([], None)
        assert await ledger.attempts("nobody") == []
        assert await ledger.events("nobody") == []
        assert await ledger.workers() == []
        assert sum((await ledger.counts(None)).values()) == 0
        assert await ledger.violations() == []
        assert await ledger.held("nobody") == []
        assert await ledger.live_tokens([]) == set()
        assert await ledger.submit([]) == []

    async def test_a_list_comes_newest_first_in_pages_without_gaps_or_repeats(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        submitted = []
        for _ in range(7):
            submitted.append((await they.submit()).job_id)
            clock.advance(1)
        seen: list[str] = []
        before = None
        sizes = []
        while True:
            page, before = await ledger.jobs(ListQuery(limit=3, before=before))
            sizes.append(len(page))
            seen += [row.job_id for row in page]
            if before is None:
                break
            await they.submit()  # a newcomer does not move the pages that follow

        assert seen == submitted[::-1]
        assert sizes == [3, 3, 1]

    async def test_counts_are_per_state_and_namespace(self, they: Actors, ledger: Ledger) -> None:
        await they.submit()
        await they.submit(namespace="media")
        await they.succeed(await they.running())
        await they.fail(await they.running(), Outcome.PERMANENT)
        await they.running()

        counts = await ledger.counts(None)
        assert {state: n for state, n in counts.items() if n} == {
            "queued": 2, "finished": 1, "failed": 1, "running": 1,
        }  # fmt: skip
        assert {state: n for state, n in (await ledger.counts("media")).items() if n} == {"queued": 1}

    async def test_a_job_is_found_by_its_own_namespace_or_by_any(self, they: Actors, ledger: Ledger) -> None:
        job_id = (await they.submit(namespace="media", request_id="r1")).job_id

        assert await ledger.job("media", job_id) == await ledger.job(None, job_id) == await ledger.job("media", "r1")
        assert await ledger.job("ads", job_id) is None
        assert await ledger.job("ads", "r1") is None

    async def test_a_healthy_ledger_has_no_violations_after_a_busy_day(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        await they.submit(delay_s=30, subscribers=("webhook:https://x.example",))
        await they.succeed(await they.running(key="k", subscribers=("webhook:https://x.example",)))
        await they.fail(await they.running(), Outcome.PERMANENT)
        await they.fail(await they.running())
        await they.cancel((await they.running()).job_id)
        lease = await they.running()
        await they.save(lease)
        await they.release(lease)
        await they.running(by="w2")
        await they.expire_all()
        await they.running(by="w3")

        assert await ledger.violations() == []

    # --- two parties ---

    async def test_what_one_party_wrote_the_other_reads_at_once(self, they: Actors, open_ledger: OpenLedger) -> None:
        other = Actors(await open_ledger(), they.clock, they.ready)
        lease = await they.running()

        assert await other.standing(lease) == "held"
        await other.cancel(lease.job_id)
        assert await they.renew(lease) == ["canceled"]

    async def test_fifty_that_submit_the_same_key_at_once_share_one_job(
        self, they: Actors, open_ledger: OpenLedger
    ) -> None:
        ledgers = [they.ledger, await open_ledger(), await open_ledger()]

        replies = await asyncio.gather(*(ledgers[n % 3].submit([a_request(key="k")]) for n in range(50)))

        dispositions = [reply.disposition for [reply] in replies]
        assert len({reply.job_id for [reply] in replies}) == 1
        assert (dispositions.count("new"), dispositions.count("joined")) == (1, 49)

    async def test_the_same_request_sent_twice_at_once_is_one_job(self, they: Actors, open_ledger: OpenLedger) -> None:
        other = await open_ledger()
        request = a_request()

        replies = await asyncio.gather(they.ledger.submit([request]), other.submit([request]))

        assert sorted(reply.disposition for [reply] in replies) == ["new", "repeated"]
        assert len({reply.job_id for [reply] in replies}) == 1

    async def test_of_two_contents_under_one_key_at_once_one_is_a_conflict(
        self, they: Actors, open_ledger: OpenLedger
    ) -> None:
        other = await open_ledger()

        answers = await asyncio.gather(
            they.ledger.submit([a_request(key="k")]),
            other.submit([a_request(key="k", content="other")]),
            return_exceptions=True,
        )

        assert [type(answer) for answer in answers if isinstance(answer, BaseException)] == [Conflict]
        assert (await they.ledger.counts(None))["queued"] == 1

    async def test_a_conflict_in_a_crowd_hits_only_its_own_caller(self, they: Actors) -> None:
        """Verbs that wait together may be committed together; each has its own answer."""
        await they.submit(request_id="taken")

        answers = await asyncio.gather(
            *(they.ledger.submit([a_request()]) for _ in range(10)),
            they.ledger.submit([a_request(request_id="taken", content="other")]),
            *(they.ledger.submit([a_request()]) for _ in range(10)),
            return_exceptions=True,
        )

        assert [n for n, answer in enumerate(answers) if isinstance(answer, BaseException)] == [10]
        assert (await they.ledger.counts(None))["queued"] == 21

    @pytest.mark.parametrize("who", ["itself", "another party"])
    async def test_a_waiter_is_woken_by_a_change(self, they: Actors, open_ledger: OpenLedger, who: str) -> None:
        writer = they.ledger if who == "itself" else await open_ledger()
        await they.ledger.changed(timeout_s=0.05)
        waiting = asyncio.ensure_future(they.ledger.changed(timeout_s=30))
        await asyncio.sleep(0)
        began = time.monotonic()

        await writer.submit([a_request()])
        await waiting

        assert time.monotonic() - began < 5

    async def test_who_waits_for_one_job_is_woken_by_its_changes_alone(
        self, they: Actors, open_ledger: OpenLedger
    ) -> None:
        other = await open_ledger()
        mine = (await they.submit()).job_id
        begun = asyncio.Event()

        async def wait() -> None:
            await they.ledger.changed(timeout_s=0.05, about=mine)  # the first call of a task returns at once
            begun.set()
            await they.ledger.changed(timeout_s=30, about=mine)

        waiting = asyncio.ensure_future(wait())
        await begun.wait()

        await other.submit([a_request(request_id="somebody-elses")])
        await asyncio.wait([waiting], timeout=0.3)
        undisturbed = not waiting.done()
        began = time.monotonic()
        await other.cancel(CancelRequest(namespace="default", job_id=mine))
        await waiting

        assert undisturbed
        assert time.monotonic() - began < 5

    async def test_a_change_between_two_waits_is_not_missed(self, they: Actors, open_ledger: OpenLedger) -> None:
        other = await open_ledger()
        await they.ledger.changed(timeout_s=0.05)
        await other.submit([a_request()])
        began = time.monotonic()

        await they.ledger.changed(timeout_s=30)

        assert time.monotonic() - began < 5

    async def test_a_wait_ends_at_its_timeout(self, ledger: Ledger) -> None:
        await ledger.changed(timeout_s=0.05)
        began = time.monotonic()

        await ledger.changed(timeout_s=0.1)

        assert 0.09 <= time.monotonic() - began < 5
