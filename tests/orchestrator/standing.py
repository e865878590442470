"""A ledger that an orchestrator owns, with its store, as often as a test opens a copy of it."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from planrun.core.life import Outcome
from planrun.core.messages import Lease, Output, SettleRequest
from planrun.core.names import attempt_prefix
from planrun.ledger.chronicle import Chronicle
from planrun.ledger.contract import Ledger
from planrun.orchestrator.closer import Closer
from planrun.orchestrator.generations import Generations
from planrun.orchestrator.recovery import begin
from planrun.storage.contract import Store
from planrun.storage.filesystem import FilesystemStore
from planrun.wiring import chronicle_of, open_ledger
from tests.contract.actors import Actors
from tests.contract.manual_clock import ManualClock


@dataclass
class Standing:
    """One orchestrator that has begun."""

    ledger: Ledger
    chronicle: Chronicle
    store: Store
    generations: Generations
    closer: Closer
    they: Actors

    async def say(self) -> dict[str, str]:
        """Close what has ended, and deliver what is owed: message id → body."""
        await self.closer.tick(0)
        said: dict[str, str] = {}
        while messages := await self.ledger.take_messages(limit=100, retry_ms=1_000):
            said |= {message.msg_id: message.body for message in messages}
            for message in messages:
                await self.ledger.confirm(message.msg_id)
        return said

    async def finish(self, lease: Lease, text: str, folder: Path) -> None:
        """Store a file for the attempt, and settle."""
        source = folder / "source"
        source.write_text(text)
        prefix = attempt_prefix("default", lease.job_id, lease.attempt, lease.token)
        stored = self.store.put(prefix, "out.txt", source, may_go_on=lambda: True)
        output = Output(name="out.txt", key=stored.key, sha256=stored.sha256, bytes=stored.bytes)
        await self.ledger.settle(SettleRequest(lease=lease, outcome=Outcome.SUCCESS, outputs=(output,)))


@asynccontextmanager
async def standing(
    ledger_path: Path, store: Store | Path, clock: ManualClock, *, recover: bool = False, began: bool = True
) -> AsyncIterator[Standing]:
    """Open and begin.

    Args:
        began: False: not even look whether it is the right ledger.
    """
    ledger = open_ledger(str(ledger_path), clock=clock)
    try:
        chronicle = chronicle_of(ledger)
        kept = FilesystemStore(store) if isinstance(store, Path) else store
        generations = Generations(chronicle, kept, clock)
        if began:
            await begin(chronicle, kept, generations, recover=recover)
        closer = Closer(chronicle, kept, generations)
        yield Standing(ledger, chronicle, kept, generations, closer, Actors(ledger, clock))
        closer.close()
    finally:
        await ledger.close()


def copy_of(ledger_path: Path, target: Path) -> Path:
    """The files of a ledger that nobody has open, somewhere else: as a snapshot of the disk has them."""
    for file in ledger_path.parent.glob(f"{ledger_path.name}*"):
        if file.is_file():
            shutil.copy(file, target.with_name(file.name.replace(ledger_path.name, target.name)))
    return target
