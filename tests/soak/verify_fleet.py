"""`planrun verify` for ten minutes over a RabbitMQ and an S3 server: nothing lost, doubled or overwritten."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from deploy.local.rabbitmq import RabbitMQ
from deploy.local.s3 import Seaweed
from tests.fleet import Fleet

MINUTES = 10.0


async def stand(folder: Path, broker: RabbitMQ, s3: Seaweed, minutes: float) -> int:
    fleet = Fleet(folder, broker=broker, s3=s3)
    try:
        fleet.start_orchestrator()
        command = [sys.executable, "-m", "planrun.cli", "verify", "--minutes", f"{minutes:g}"]
        environment = {**os.environ, **fleet.environment, "PLANRUN_URL": fleet.remote_url}
        return (await asyncio.to_thread(subprocess.run, command, cwd=folder, env=environment, check=False)).returncode
    finally:
        await fleet.end()


def main(minutes: float | None) -> int:
    broker = RabbitMQ()
    with tempfile.TemporaryDirectory(prefix="planrun-soak-") as folder:
        s3 = Seaweed(Path(folder, "s3"))
        (fleet := Path(folder, "fleet")).mkdir()
        try:
            broker.start()
            s3.start()
            return asyncio.run(stand(fleet, broker, s3, minutes or MINUTES))
        finally:
            s3.kill()
            broker.remove()
