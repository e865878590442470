"""A lease of a fleet ends only when its holder has stopped to trust itself. Each rule alone, and all together."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from planrun.core.errors import LedgerUnavailable
from planrun.core.flows import Marker
from planrun.core.messages import RenewRequest, Standing
from planrun.ledger.sqlite import access
from planrun.orchestrator.expiry import FleetExpiry
from planrun.orchestrator.sweeper import Sweeper
from planrun.wiring import open_fleet_ledger
from tests.contract.manual_clock import ManualClock
from tests.orchestrator.fleet_stage import LEDGER_LEASE_S, FleetStage

pytestmark = pytest.mark.anyio


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FleetStage]:
    """On a clock of its own: what the writer met in real time says nothing there."""
    monkeypatch.setattr(access, "MOMENT_MS", 0)
    monkeypatch.setattr(access, "KNOWN_FOR_MS", math.inf)
    monkeypatch.setattr(access, "DELAYED_MS", math.inf)
    clock = ManualClock()
    ledger = open_fleet_ledger(f"sqlite:///{tmp_path}/ledger.db", clock=clock)
    stage = FleetStage(ledger, clock)
    await stage.look()
    yield stage
    assert stage.taken_from_a_believer == []
    await ledger.close()


async def test_who_beats_keeps_its_leases_and_who_is_silent_loses_them_after_a_lease(stage: FleetStage) -> None:
    await stage.hold("living", "silent", leases=2)
    await stage.pass_time(31)
    stage.cut("silent")

    await stage.pass_time(LEDGER_LEASE_S - 8)
    assert await stage.lost() == set()
    await stage.pass_time(20)
    assert await stage.lost() == {"silent"}
    await stage.pass_time(300)
    assert await stage.lost() == {"silent"}


async def test_heartbeats_that_wait_unread_count_before_anything_ends(stage: FleetStage) -> None:
    """The orchestrator lags five leases behind; the broker has confirmed everything meanwhile."""
    await stage.hold("w1", "w2")
    stage.transport.is_consumed = False
    await stage.pass_time(5 * 90)
    stage.transport.is_consumed = True

    await stage.pass_time(10)

    assert await stage.lost() == set()


async def test_a_late_heartbeat_counts_from_when_it_is_processed(stage: FleetStage) -> None:
    await stage.hold("w1")
    stage.transport.is_consumed = False
    await stage.pass_time(80)
    stage.cut("w1")
    stage.transport.is_consumed = True
    await stage.look()

    row = await stage.they.row(stage.holders["w1"].leases[0].job_id)
    assert row.lease_until_ms == stage.clock.boot_ms_now + LEDGER_LEASE_S * 1000


async def test_an_orchestrator_that_was_away_for_five_leases_takes_nothing_when_it_comes_back(
    stage: FleetStage,
) -> None:
    await stage.hold("w1", "dead")
    stage.cut("dead")
    stage.is_orchestrated = False
    await stage.pass_time(5 * 90)
    stage.is_orchestrated = True
    stage.start_orchestrator()

    await stage.pass_time(60)
    assert await stage.lost() == set()
    await stage.pass_time(60)
    assert await stage.lost() == {"dead"}


async def test_confirmed_heartbeats_that_the_broker_lost_cost_nobody_a_lease(stage: FleetStage) -> None:
    await stage.hold("w1", "w2")
    stage.transport.is_consumed = False
    await stage.pass_time(88)
    stage.transport.break_way(lose=True)
    stage.transport.is_consumed = True

    await stage.pass_time(28)

    assert await stage.lost() == set()
    assert len(stage.transport.epochs) == 2


async def test_a_marker_that_was_sent_before_a_break_ends_nothing(stage: FleetStage) -> None:
    """The broker lost the heartbeats before it, and kept (or repeated) the marker."""
    await stage.hold("w1")
    stage.transport.is_consumed = False
    await stage.pass_time(96)
    marker = next(each for each in stage.transport._arrived if isinstance(each, Marker))
    stage.transport.break_way(lose=True)
    stage.transport.is_consumed = True

    await stage.transport.mark(marker)
    await stage.beats.take_in(stage.clock.boot_ms_now)
    await stage.transport.mark(marker)
    await stage.pass_time(2)

    assert await stage.lost() == set()


async def test_a_break_between_taking_the_marker_and_meeting_it_voids_it(
    stage: FleetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.hold("w1")
    stage.transport.is_consumed = False
    await stage.pass_time(94)
    stage.transport._arrived = [each for each in stage.transport._arrived if isinstance(each, Marker)]
    stage.transport.is_consumed = True
    beats = stage.transport.beats

    async def broken(*, timeout_s: float) -> object:
        taken = await beats(timeout_s=timeout_s)
        stage.transport.break_way(lose=True)
        return taken

    monkeypatch.setattr(stage.transport, "beats", broken)
    await stage.beats.take_in(stage.clock.boot_ms_now)
    monkeypatch.undo()

    assert await stage.lost() == set()


async def test_leases_are_given_their_full_length_after_heartbeats_have_a_new_place(stage: FleetStage) -> None:
    """What arrives in the old place until the very end is dropped with it."""
    await stage.hold("w1")

    async def slow() -> None:
        stage.clock.advance(60)
        stage.holders["w1"].beat(stage.transport, stage.clock.boot_ms_now)
        stage.cut("w1")

    stage.transport.on_begin_epoch = slow
    stage.transport.break_way(lose=False)
    await stage.pass_time(120)
    assert await stage.lost() == set()

    await stage.pass_time(40)
    assert await stage.lost() == {"w1"}


async def test_a_marker_that_never_comes_back_is_sent_again(stage: FleetStage) -> None:
    await stage.hold("w1")
    stage.cut("w1")
    stage.transport.is_consumed = False
    await stage.pass_time(94)
    stage.transport.lose_markers()
    stage.transport.is_consumed = True
    await stage.pass_time(6)
    assert await stage.lost() == set()

    await stage.pass_time(8)

    assert await stage.lost() == {"w1"}


async def test_a_marker_that_was_away_for_too_long_says_nothing_and_heartbeats_begin_anew(stage: FleetStage) -> None:
    """A broker may drop heartbeats that wait for a quarter of an hour."""
    await stage.hold("w1")
    stage.cut("w1")
    stage.transport.is_consumed = False
    await stage.pass_time(94)
    stage.is_orchestrated = False
    await stage.pass_time(601)
    stage.is_orchestrated = stage.transport.is_consumed = True

    await stage.pass_time(2)
    assert await stage.lost() == set()
    assert len(stage.transport.epochs) == 2
    await stage.pass_time(96)
    assert await stage.lost() == {"w1"}


async def test_a_broker_that_is_away_ends_nothing_and_is_met_again(stage: FleetStage) -> None:
    await stage.hold("w1")
    stage.transport.is_up = False
    await stage.pass_time(60)
    stage.transport.break_way(lose=True)
    stage.transport.is_up = True

    await stage.pass_time(100)

    assert await stage.lost() == set()


async def test_heartbeats_that_the_ledger_could_not_take_are_taken_later(
    stage: FleetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.hold("w1")
    renew_all = stage.ledger.renew_all

    async def unavailable(requests: list[RenewRequest]) -> list[list[Standing]]:
        raise LedgerUnavailable("the disk is full")

    stage.clock.advance(60)
    stage.holders["w1"].beat(stage.transport, stage.clock.boot_ms_now)
    monkeypatch.setattr(stage.ledger, "renew_all", unavailable)
    with pytest.raises(LedgerUnavailable):
        await stage.beats.take_in(stage.clock.boot_ms_now)
    monkeypatch.setattr(stage.ledger, "renew_all", renew_all)
    await stage.look()

    row = await stage.they.row(stage.holders["w1"].leases[0].job_id)
    assert row.lease_until_ms == stage.clock.boot_ms_now + LEDGER_LEASE_S * 1000


async def test_where_very_many_fall_silent_at_once_one_worker_is_given_up_every_ten_seconds(
    stage: FleetStage, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"w{n}" for n in range(12)]
    await stage.hold(*names, leases=2)
    stage.cut(*names[:8])
    with caplog.at_level(logging.ERROR):
        await stage.pass_time(LEDGER_LEASE_S + 6)
    assert len(await stage.lost()) == 1
    assert [record.message.split(" workers")[0] for record in caplog.records] == ["16 of 24 leases on 8"]

    await stage.pass_time(20)
    assert len(await stage.lost()) == 3
    for name in names[:8]:
        stage.holders[name].is_cut = False
    await stage.pass_time(120)
    assert len(await stage.lost()) <= 6, "most came back in time"


async def test_a_few_that_fall_silent_are_given_up_at_once(stage: FleetStage) -> None:
    names = [f"w{n}" for n in range(20)]
    await stage.hold(*names)
    stage.cut(*names[:5])

    await stage.pass_time(LEDGER_LEASE_S + 4)

    assert await stage.lost() == set(names[:5])


async def test_a_worker_that_comes_back_is_told_what_it_has_lost(stage: FleetStage) -> None:
    await stage.hold("w1")
    stage.cut("w1")
    await stage.pass_time(120)
    stage.holders["w1"].is_cut = False

    await stage.pass_time(30)

    [notice] = stage.transport.told["w1"]
    assert (notice.lease, notice.standing and notice.standing.status) == (stage.holders["w1"].leases[0], "lost")


async def test_who_was_cut_off_is_not_revived_by_a_mere_confirmation(stage: FleetStage) -> None:
    """Taken over meanwhile; then the broker confirms again while the orchestrator is away."""
    await stage.hold("w1")
    stage.cut("w1")
    await stage.pass_time(120)
    assert await stage.lost() == {"w1"}
    stage.is_orchestrated = False
    stage.holders["w1"].is_cut = False

    await stage.pass_time(60)


async def test_without_a_broker_a_new_orchestrator_gives_every_lease_its_full_length_too(stage: FleetStage) -> None:
    await stage.hold("w1")
    stage.clock.advance(5 * 90)
    sweeper = Sweeper(stage.ledger, expiry=FleetExpiry(stage.ledger), proof_of_death=False)

    for _ in range(30):
        await sweeper.tick(stage.clock.boot_ms_now)
        stage.clock.advance(3)
    assert await stage.lost() == set()
    stage.clock.advance(4)
    await sweeper.tick(stage.clock.boot_ms_now)
    assert await stage.lost() == {"w1"}
