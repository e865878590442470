"""A worker registers anew where its ledger has lost it, and at no other time."""

from __future__ import annotations

from typing import cast

import pytest

from planrun.core.messages import WorkerRow
from planrun.ledger.contract import Ledger
from planrun.worker.enrolment import ASK_EVERY_MS, Enrolment
from tests.contract.manual_clock import ManualClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Register:
    """As much of a ledger as is asked."""

    def __init__(self) -> None:
        self.known: dict[str, WorkerRow] = {}
        self.asked = 0
        self.generation = 1

    async def worker(self, incarnation: str) -> WorkerRow | None:
        self.asked += 1
        return self.known.get(incarnation)

    async def register(self, row: WorkerRow) -> None:
        self.known[row.incarnation] = row


async def test_a_worker_that_a_recovered_ledger_does_not_know_registers_anew() -> None:
    clock, ledger = ManualClock(), Register()
    row = WorkerRow(incarnation="w", name="w", host="box", slots=1)
    enrolment = Enrolment(cast("Ledger", ledger), clock, row, generation=lambda: ledger.generation)

    await enrolment.tick(clock.boot_ms())
    assert (ledger.asked, ledger.known) == (0, {})
    ledger.generation = 2
    await enrolment.tick(clock.boot_ms())
    await enrolment.tick(clock.boot_ms())
    assert (ledger.asked, list(ledger.known)) == (1, ["w"])


async def test_a_worker_that_hears_nothing_asks_now_and_then_and_leaves_its_row_as_it_is() -> None:
    clock, ledger = ManualClock(), Register()
    row = WorkerRow(incarnation="w", name="w", host="box", slots=1)
    draining = ledger.known["w"] = WorkerRow(incarnation="w", name="w", host="box", slots=1, state="draining")
    enrolment = Enrolment(cast("Ledger", ledger), clock, row, generation=lambda: ledger.generation)

    for _ in range(5):
        clock.advance(ASK_EVERY_MS / 2000)
        await enrolment.tick(clock.boot_ms())

    assert (ledger.asked, ledger.known["w"]) == (2, draining)
