"""Who may end the leases of a dead worker from its own machine, and when it had better not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from planrun.clock import SystemClock
from planrun.core.messages import Lease, WorkerRow
from planrun.ledger.contract import Ledger
from planrun.lockfile import WorkerLock
from planrun.worker.leftovers import Leftovers

pytestmark = pytest.mark.anyio

DEAD, SECRET = "w1", "its secret"


class Registry:
    """An orchestrator's ledger that knows one worker, which held two leases."""

    def __init__(self, state: str) -> None:
        self.state = state
        self.leases = 2

    async def worker(self, incarnation: str) -> WorkerRow | None:
        row = WorkerRow(incarnation=incarnation, name="one", host="box", slots=2, state=self.state)
        return row if incarnation == DEAD else None

    async def held(self, incarnation: str) -> list[Lease]:
        return [Lease(job_id="j", attempt=1, token=n) for n in range(self.leases)]

    async def bury_own(self, incarnation: str, *, secret: str, who: str) -> int | None:
        if (incarnation, secret) != (DEAD, SECRET):
            return None
        ended, self.leases = self.leases, 0
        return ended


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def die(tmp_path: Path) -> Callable[..., Path]:
    def die(*, secret: str = SECRET) -> Path:
        lock = WorkerLock.acquire(tmp_path, DEAD)
        assert not secret or lock.keep_secret(secret)
        lock.close()
        return lock.path

    return die


async def look(registry: Registry, folder: Path, *, is_well: bool = False, proof: bool = True) -> None:
    async def probe() -> bool:
        return is_well

    leftovers = Leftovers(
        cast("Ledger", registry),
        SystemClock.open_system(),
        workers=folder,
        scratch=folder / "scratch",
        clear=lambda incarnation: None,
        who="two",
        proof_of_death=proof,
        is_well=probe,
    )
    await leftovers.tick(0)


async def test_whoever_gets_a_lock_and_reads_its_secret_ends_the_leases_of_the_dead(
    tmp_path: Path, die: Callable[..., Path]
) -> None:
    lock, registry = die(), Registry("ready")
    secret = lock.with_suffix(".secret")
    assert oct(secret.stat().st_mode & 0o777) == "0o600"

    await look(registry, tmp_path)

    assert registry.leases == 0
    assert not lock.exists()
    assert not secret.exists()


async def test_a_living_worker_is_left_alone(tmp_path: Path) -> None:
    lock, registry = WorkerLock.acquire(tmp_path, DEAD), Registry("ready")
    assert lock.keep_secret(SECRET)

    await look(registry, tmp_path)

    assert registry.leases == 2
    lock.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_well", [False, True])
async def test_a_worker_that_broke_gives_its_leases_up_early_on_a_machine_that_is_found_well_and_on_no_other(
    tmp_path: Path, die: Callable[..., Path], is_well: bool
) -> None:
    lock, registry = die(), Registry("broken")

    await look(registry, tmp_path, is_well=is_well)

    assert (registry.leases, lock.exists()) == ((0, False) if is_well else (2, True))


@pytest.mark.parametrize(("secret", "proof"), [("", True), ("of another", True), (SECRET, False)])
async def test_without_the_secret_or_where_proofs_are_switched_off_leases_run_out(
    tmp_path: Path, die: Callable[..., Path], secret: str, proof: bool
) -> None:
    lock, registry = die(secret=secret), Registry("ready")

    await look(registry, tmp_path, proof=proof)

    assert (registry.leases, lock.exists()) == (2, False)
