"""What an operator sees and does."""

from __future__ import annotations

import pytest

from planrun.core.coverage import OpenJobs
from planrun.core.drains import Drain, DrainRequest
from planrun.core.messages import Granted, Refused
from planrun.core.pauses import Pause, PauseRequest
from planrun.ledger.contract import Ledger

from .actors import KIND, Actors
from .ledger_contract import LedgerContract
from .manual_clock import ManualClock


class OperatorContract(LedgerContract):
    async def test_open_jobs_are_counted_by_namespace_kind_and_version(self, they: Actors, ledger: Ledger) -> None:
        await they.submit(namespace="ads", version="v2")
        await they.submit()
        await they.submit(delay_s=60)
        await they.running()
        await they.succeed(await they.running())

        assert await ledger.open_jobs() == [
            OpenJobs(namespace="ads", kind=KIND, version="v2", queued=1),
            OpenJobs(namespace="default", kind=KIND, version="v1", queued=2, running=1),
        ]

    async def test_nobody_has_an_outlook_on_a_job_that_is_not_there(self, ledger: Ledger) -> None:
        assert await ledger.outlook("nowhere") is None

    async def test_ids_are_found_by_their_beginning(self, they: Actors, ledger: Ledger) -> None:
        jobs = sorted([(await they.submit()).job_id for _ in range(9)])

        assert await ledger.job_ids(None, "", 99) == jobs
        assert await ledger.job_ids(None, jobs[4], 2) == await ledger.job_ids(None, jobs[4][:20], 2) == [jobs[4]]
        assert (len(await ledger.job_ids(None, "", 2)), await ledger.job_ids(None, "%", 9)) == (2, [])
        other = (await they.submit(namespace="ads")).job_id
        assert await ledger.job_ids("ads", "", 9) == await ledger.job_ids("ads", other[:6], 9) == [other]

    async def test_what_ended_lately_is_counted_by_state(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        await they.succeed(await they.running())
        clock.advance(60)
        await they.cancel((await they.submit()).job_id)

        assert await ledger.ended(clock.wall_ms - 1_000) == {"canceled": 1}
        assert await ledger.ended(0) == {"canceled": 1, "finished": 1}

    async def test_c71_a_job_that_lost_its_worker_keeps_priority_and_age(self, they: Actors) -> None:
        await they.submit()
        urgent = await they.running(priority=5)
        old = await they.running()
        others = [(await they.submit(priority=priority)).job_id for priority in (5, 4, 0)]
        await they.expire_all()

        line = await they.line()

        assert line[:3] == [urgent.job_id, others[0], others[1]]
        assert line.index(old.job_id) < line.index(others[2])

    # --- drain ---

    async def test_a_drained_worker_gets_nothing_more_and_keeps_what_it_has(self, they: Actors, ledger: Ledger) -> None:
        lease = await they.running(by="w1")
        waiting = (await they.submit()).job_id

        assert await ledger.drain(DrainRequest(incarnations=("w1", "nobody"))) == ["w1"]
        assert await ledger.drain(DrainRequest(incarnations=("w1",))) == []

        assert await they.ask(waiting, by="w1") == Refused(why="not-ready")
        assert await they.renew(lease, by="w1") == ["held"]
        assert (await they.succeed(lease)).status == "won"
        assert await ledger.undrain(DrainRequest(incarnations=("w1",))) == ["w1"]
        assert isinstance(await they.ask(waiting, by="w1"), Granted)

    async def test_a_worker_that_goes_by_itself_is_not_called_back(self, they: Actors, ledger: Ledger) -> None:
        await they.register("w1")
        await ledger.drain(DrainRequest(incarnations=("w1",)))
        await they.register("w1", state="draining")

        assert await ledger.undrain(DrainRequest(incarnations=("w1",))) == []
        found = await ledger.worker("w1")
        assert found is not None
        assert found.state == "draining"

    async def test_who_drained_and_undid_it_and_why_stays_in_the_history(
        self, they: Actors, ledger: Ledger, clock: ManualClock
    ) -> None:
        await they.register("w1")
        start_ms = clock.wall_ms
        await ledger.drain(DrainRequest(incarnations=("w1",), who="ann", why="new disk"))
        clock.advance(1)
        await ledger.undrain(DrainRequest(incarnations=("w1",), who="bob", why="not today"))

        assert await ledger.drains(9) == [
            Drain(
                incarnation="w1", worker="name-of-w1", drained_at_ms=start_ms, who="ann", why="new disk",
                ended_at_ms=start_ms + 1_000, undone=True, undone_who="bob", undone_why="not today",
            )
        ]  # fmt: skip

    # --- pause ---

    @pytest.mark.parametrize(("namespace", "kind"), [("", ""), ("default", ""), ("", KIND), ("default", KIND)])
    async def test_a_paused_job_is_neither_offered_nor_granted_until_it_is_resumed(
        self, they: Actors, ledger: Ledger, namespace: str, kind: str
    ) -> None:
        first, second = [(await they.submit()).job_id for _ in range(2)]
        request = PauseRequest(namespace=namespace, kind=kind, who="ann")

        assert await ledger.pause(request)

        assert (await they.line(), await they.ask(first)) == ([], Refused(why="paused"))
        assert await ledger.resume(request)
        assert await they.line() == [first, second]
        assert isinstance(await they.ask(first), Granted)

    async def test_other_kinds_and_namespaces_are_not_touched(self, they: Actors, ledger: Ledger) -> None:
        job_id = (await they.submit()).job_id
        for request in (
            PauseRequest(kind="poster"),
            PauseRequest(namespace="ads"),
            PauseRequest(namespace="ads", kind=KIND),
        ):
            await ledger.pause(request)

        assert await they.line() == [job_id]
        assert isinstance(await they.ask(job_id), Granted)

    async def test_what_runs_goes_on_and_a_lost_reply_of_its_grant_is_still_repeated(
        self, they: Actors, ledger: Ledger
    ) -> None:
        job_id = (await they.submit()).job_id
        granted = await they.ask(job_id, nonce="n1")
        await ledger.pause(PauseRequest())

        assert await they.ask(job_id, nonce="n1") == granted
        assert isinstance(granted, Granted)
        assert await they.renew(granted.lease) == ["held"]
        assert (await they.succeed(granted.lease)).status == "won"

    async def test_a_second_pause_of_the_same_set_changes_nothing_and_a_wider_one_is_another(
        self, they: Actors, ledger: Ledger
    ) -> None:
        await they.submit()

        assert await ledger.pause(PauseRequest(kind=KIND, who="ann"))
        assert not await ledger.pause(PauseRequest(kind=KIND, who="bob"))
        assert await ledger.pause(PauseRequest(who="bob"))
        assert not await ledger.resume(PauseRequest(namespace="default", kind=KIND))
        assert await ledger.resume(PauseRequest(kind=KIND))
        assert await they.line() == []

    async def test_who_paused_and_resumed_what_and_why_stays_in_the_history(
        self, ledger: Ledger, clock: ManualClock
    ) -> None:
        start_ms = clock.wall_ms
        await ledger.pause(PauseRequest(kind=KIND, who="ann", why="new card"))
        clock.advance(1)
        await ledger.resume(PauseRequest(kind=KIND, who="bob", why="done"))
        await ledger.pause(PauseRequest(namespace="ads"))

        now = Pause(namespace="ads", kind="", paused_at_ms=start_ms + 1_000)
        past = Pause(
            namespace="", kind=KIND, paused_at_ms=start_ms, who="ann", why="new card",
            resumed_at_ms=start_ms + 1_000, resumed_who="bob", resumed_why="done",
        )  # fmt: skip
        assert (await ledger.pauses(9), await ledger.pauses(1), await ledger.pauses(None)) == (
            [now, past],
            [now],
            [now],
        )
