"""A ledger in memory, as far as the duties ask it: what is due is plain attributes, what was asked is a list."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import cast

from planrun.core.errors import LedgerUnavailable
from planrun.core.history import What
from planrun.core.keeping import Garbage
from planrun.core.messages import Due, Lease, Message, WorkerRow
from planrun.ledger.contract import Ledger


class FakeLedger:
    def __init__(self) -> None:
        self.boot_ms = 1_000_000
        self.lease_ms: int | None = None  # when the one lease ends
        self.promote_ms: int | None = None
        self.deadline_ms: int | None = None
        self.foreign_epoch = False
        self.holders: tuple[WorkerRow, ...] = ()
        self.known: tuple[WorkerRow, ...] = ()
        self.leases: dict[str, list[Lease]] = {}
        self.owed: dict[str, tuple[Message, int]] = {}  # with the time at which it is due
        self.rubbish: list[Garbage] = []
        self.live: set[int] = set()
        self.asked: list[str] = []
        self.kept_long_enough = False
        self.out_of_order = False
        self.hopeless = 0  # jobs that nobody can run

    @property
    def port(self) -> Ledger:
        return cast("Ledger", self)

    def owe(self, message: Message) -> None:
        self.owed[message.msg_id] = (message, self.boot_ms)

    async def due(self) -> Due:
        self._answer("due")
        messages = [due_ms for _, due_ms in self.owed.values()]
        times = [time for time in (self.lease_ms, self.promote_ms, self.deadline_ms, *messages) if time is not None]

        def passed(*when: int | None) -> bool:
            return any(time is not None and time <= self.boot_ms for time in when)

        return Due(
            lease_ms=self.lease_ms,
            foreign_epoch=self.foreign_epoch,
            promotable=passed(self.promote_ms),
            deadlines=passed(self.deadline_ms),
            messages=passed(*messages),
            holders=self.holders,
            next_ms=min(times, default=None),
        )

    async def adopt_epoch(self) -> int:
        self._answer("adopt_epoch")
        self.foreign_epoch, self.lease_ms = False, None
        return 1

    async def expire(self, *, stamp_ms: int, incarnation: str | None = None) -> int:
        self._answer(f"expire {stamp_ms}")
        if self.lease_ms is None or self.lease_ms > stamp_ms:
            return 0
        self.lease_ms = None
        return 1

    async def promote(self) -> int:
        self._answer("promote")
        self.promote_ms = None
        return 1

    async def end_overdue(self) -> int:
        self._answer("end_overdue")
        self.deadline_ms = None
        return 1

    async def end_unsupported(self, *, waited_ms: int, waited_ms_max: int | None = None) -> int:
        self._answer(f"end_unsupported {waited_ms}" + (f" to {waited_ms_max}" if waited_ms_max is not None else ""))
        self.hopeless -= 1 if self.hopeless else 0
        return self.hopeless

    async def workers(self) -> list[WorkerRow]:
        return list(self.known)

    async def held(self, incarnation: str) -> list[Lease]:
        return self.leases.get(incarnation, [])

    async def bury(self, incarnation: str, *, who: str) -> int:
        self._answer(f"bury {incarnation}")
        self.holders = tuple(holder for holder in self.holders if holder.incarnation != incarnation)
        return len(self.leases.pop(incarnation, []))

    async def take_messages(self, *, limit: int, retry_ms: int) -> list[Message]:
        self._answer("take_messages")
        taken: list[Message] = []
        for msg_id, (message, due_ms) in list(self.owed.items()):
            if due_ms <= self.boot_ms and len(taken) < limit:
                again = Message(msg_id=msg_id, route=message.route, body=message.body, tries=message.tries + 1)
                wait_ms = max(retry_ms, min(300_000, 1000 * 2**again.tries))
                self.owed[msg_id] = (again, self.boot_ms + wait_ms)
                taken.append(again)
        return taken

    async def confirm(self, msg_id: str, *, what: What | None = None, detail: str = "") -> None:
        self._answer(f"confirm {msg_id}")
        self.owed.pop(msg_id, None)

    async def park(self, msg_id: str, *, detail: str) -> bool:
        self._answer(f"park {msg_id}: {detail}")
        return self.kept_long_enough and self.owed.pop(msg_id, None) is not None

    async def garbage(self, *, grace_ms: int, limit: int, visited: Collection[int] = ()) -> list[Garbage]:
        return [each for each in self.rubbish if each.final or each.lease.token not in visited][:limit]

    async def collected(self, lease: Lease) -> None:
        self._answer(f"collected {lease.job_id} {lease.attempt}")
        self.rubbish = [garbage for garbage in self.rubbish if garbage.lease != lease]

    async def live_tokens(self, tokens: Sequence[int]) -> set[int]:
        return self.live & set(tokens)

    def _answer(self, asked: str) -> None:
        if self.out_of_order:
            raise LedgerUnavailable("the disk of the ledger is full")
        self.asked.append(asked)
