"""The port for a caller that blocks: its verbs never suspend, so a coroutine over it runs without an event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from planrun.ledger.sqlite.answer import Answer
from planrun.ledger.sqlite.ledger import SqliteLedger
from planrun.ledger.tx import Tx

T = TypeVar("T")


class BlockingLedger(SqliteLedger):
    """A second view of an open ledger, with the same connections and the same writer. Never closed itself."""

    def __init__(self, ledger: SqliteLedger) -> None:
        self.__dict__ = ledger.__dict__

    async def _write(self, verb: Callable[[Tx], T], *, urgent: bool = False) -> T:
        answer: Answer[T] = self._writer.call(verb, urgent=True) if urgent else self._writer.call_here(verb)
        answer.wait(self._wait_s)
        return self._answered(answer)

    async def _read(self, query: Callable[[Tx], T]) -> T:
        return self._reader.read_here(query)

    async def _glance(self, query: Callable[[Tx], T]) -> T:
        return self._reader.read_here(query)

    async def _read_apart(self, query: Callable[[Tx], T]) -> T:
        return self._reader.read_apart_here(query)
