"""Which process an attempt gets, and which ones are dead once it is over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planrun.core.kinds import Kind
from planrun.core.messages import Granted, Lease
from planrun.worker import processes as processes_module
from planrun.worker.happenings import Exited
from planrun.worker.isolation import Level
from planrun.worker.process import JobProcess
from planrun.worker.processes import Processes, clear_after

pytestmark = pytest.mark.anyio

WARM = Kind(kind="model", version="v1", module="m", warm=True)


class Pretended(JobProcess):
    """One that was never started, and dies when it is told to."""

    def __init__(self) -> None:
        self.is_dead = False

    @property
    def has_ended(self) -> bool:
        return self.is_dead

    async def kill(self) -> Exited:
        self.is_dead = True
        return Exited(signal=9, killed=True)


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Processes:
    async def start(**_: Any) -> Pretended:
        return Pretended()

    monkeypatch.setattr(JobProcess, "start", start)
    return Processes(
        level=Level.GROUP, incarnation="w", lock_fd=-1, environment={}, import_path=[], scratch=tmp_path, idle_max=1
    )


def of(namespace: str = "a", kind: str = "model", version: str = "v1") -> Granted:
    return Granted(lease=Lease(job_id="j", attempt=1, token=1), namespace=namespace, kind=kind, version=version)


async def serve(processes: Processes, granted: Granted) -> JobProcess:
    """A job of a warm kind that ends well."""
    process = await processes.take(granted, WARM)
    processes.give_back(process)
    await processes.end(process)
    return process


async def test_a_warm_process_serves_its_own_namespace_kind_and_version_and_no_other(processes: Processes) -> None:
    first = await serve(processes, of())

    for other in (of(namespace="b"), of(kind="render"), of(version="v2")):
        assert await processes.take(other, WARM) is not first
    assert await processes.take(of(), WARM) is first


async def test_a_warm_process_that_has_died_meanwhile_is_not_used(processes: Processes) -> None:
    first = await serve(processes, of())
    await first.kill()

    assert await processes.take(of(), WARM) is not first


async def test_what_is_not_given_back_is_dead(processes: Processes) -> None:
    process = await processes.take(of(), WARM)

    await processes.end(process)

    assert process.has_ended


async def test_no_more_warm_processes_wait_than_there_are_slots(processes: Processes) -> None:
    first, second = await serve(processes, of()), await serve(processes, of(namespace="b"))

    assert (first.has_ended, second.has_ended) == (True, False)


def test_what_killed_launchers_of_a_dead_worker_have_left_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []
    monkeypatch.setattr(processes_module, "end_marked", ended.append)

    clear_after(tmp_path, "w1")

    assert ended == ["w1."]
