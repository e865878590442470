"""Samples of the long runs of a fleet (`tests/soak/fleet_*`): what breaks, breaks once or for a moment here."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from deploy.local.rabbitmq import CONSUMER_TIMEOUT_MS, NEEDS, RabbitMQ

from ..soak import fleet_crashes, fleet_machines, fleet_orchestrator, fleet_partition, fleet_patience

pytestmark = [pytest.mark.needs(NEEDS), pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.mark.anyio
async def test_jobs_longer_than_the_brokers_patience_start_once(tmp_path: Path, rabbitmq: RabbitMQ) -> None:
    """C01, C02, C20: the offer was acknowledged before the job began, so there is nothing to lose patience with."""
    await asyncio.to_thread(rabbitmq.set_consumer_timeout, 3_000)
    try:
        print(await fleet_patience.stand(tmp_path, rabbitmq, long_s=8, short_s=0.1))
    finally:
        await asyncio.to_thread(rabbitmq.set_consumer_timeout, CONSUMER_TIMEOUT_MS)


@pytest.mark.anyio
async def test_deaths_of_a_worker_and_of_the_orchestrator_have_known_outcomes(
    tmp_path: Path, rabbitmq: RabbitMQ
) -> None:
    """Between grant and acknowledgement, with a file stored, after the settle; and a settle whose reply gets lost."""
    worker, orchestrator = ("grant:answered", "settle:before", "settle:answered"), ("settle:answering",)
    await fleet_crashes.stand(tmp_path, rabbitmq, worker=worker, orchestrator=orchestrator)


@pytest.mark.anyio
async def test_a_killed_orchestrator_and_a_store_that_is_away_cost_no_start(tmp_path: Path, rabbitmq: RabbitMQ) -> None:
    """C61 too: whoever asks meanwhile asks again."""
    await fleet_orchestrator.stand(tmp_path, rabbitmq, kills=2, every_s=2, away_s=3)


@pytest.mark.anyio
async def test_c66_what_a_machine_that_is_away_can_run_waits_and_what_none_ever_could_fails(
    tmp_path: Path, rabbitmq: RabbitMQ
) -> None:
    print(await fleet_machines.stand(tmp_path, rabbitmq, away_s=2))


@pytest.mark.needs_root
@pytest.mark.needs("ip", "iptables")
def test_who_is_cut_off_from_one_way_keeps_its_job_and_from_both_loses_it_unseen(tmp_path: Path) -> None:
    cuts = (fleet_partition.cut_from_everything, fleet_partition.cut_from_the_orchestrator)
    with fleet_partition.open_site(tmp_path) as site:
        asyncio.run(fleet_partition.run(site, tmp_path, cuts, lease_s=2))
