"""deploy/ as an operator uses it: units that systemd takes, accounts in a broker with no more rights than needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import aiormq
import pytest
from aiormq.exceptions import ChannelAccessRefused

from deploy.local.rabbitmq import NEEDS, RabbitMQ
from planrun.core.life import State

from ..fleet import Fleet
from ..lab import ROOT

DEPLOY = ROOT / "deploy"
PASSWORDS = {"ORCHESTRATOR_PASSWORD": "o-secret", "WORKER_PASSWORD": "w-secret"}
pytestmark = pytest.mark.slow


@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize("unit", sorted((DEPLOY / "systemd").glob("*.service")), ids=lambda unit: unit.name)
def test_systemd_takes_the_unit(unit: Path, tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("planrun")
    (tmp_path / unit.name).write_text(unit.read_text().replace("/opt/planrun/bin/planrun", str(program)))

    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / unit.name)], capture_output=True, text=True, check=False
    )

    said = [line for line in done.stderr.splitlines() if unit.name in line]
    assert (done.returncode, said) == (0, [])


@pytest.mark.anyio
@pytest.mark.needs(NEEDS)
async def test_a_fleet_works_with_accounts_that_may_do_no_more_than_it_needs(
    tmp_path: Path, rabbitmq: RabbitMQ
) -> None:
    fleet = Fleet(tmp_path, broker=rabbitmq)
    make_accounts(rabbitmq, fleet.prefix)
    address = f"amqp://{fleet.prefix}-WHO:PASSWORD@127.0.0.1:{rabbitmq.port}/"
    fleet.broker_url = address.replace("WHO:PASSWORD", "orchestrator:o-secret")
    as_worker = address.replace("WHO:PASSWORD", "worker:w-secret")
    fleet.options = ("--worker-broker", as_worker)
    try:
        fleet.start_orchestrator()
        fleet.start_worker()
        await fleet.ready(1)
        jobs = [await fleet.submit("render", {"bytes": 1000 + n, "seconds": 0.1}) for n in range(3)]

        assert [row.state for row in await fleet.ended(*jobs)] == [State.FINISHED] * 3, fleet.last_words()
        assert "ACCESS_REFUSED" not in fleet.last_words()
        await check_refused(as_worker, fleet.prefix)
    finally:
        await fleet.end()


def make_accounts(broker: RabbitMQ, prefix: str) -> None:
    environment = {**os.environ, **broker.environment, **PASSWORDS, "PREFIX": prefix}
    subprocess.run([DEPLOY / "rabbitmq" / "accounts.sh"], env=environment, check=True)


async def check_refused(url: str, prefix: str) -> None:
    """Who works may neither read the heartbeats of others, nor end them, nor make a queue of an application's name."""

    async def hear(_: object) -> None:
        """Nothing comes."""

    async with await aiormq.connect(url) as connection:
        with pytest.raises(ChannelAccessRefused):
            await (await connection.channel()).basic_consume(f"{prefix}.beat.1.1", hear)
        with pytest.raises(ChannelAccessRefused):
            await (await connection.channel()).exchange_delete(f"{prefix}.beats")
        with pytest.raises(ChannelAccessRefused):
            await (await connection.channel()).queue_declare("answers-of-the-shop")
