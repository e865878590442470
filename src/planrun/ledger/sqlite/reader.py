"""Looks at the file that change nothing: short ones at once, long ones in a thread, very long ones apart from all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import apsw

from planrun.clock import Clock
from planrun.core.errors import LedgerUnavailable, LedgerUnusable
from planrun.ledger.sqlite.database import back_up, connect, trouble
from planrun.ledger.sqlite.identity import Identity
from planrun.ledger.sqlite.writer import SqliteTx
from planrun.ledger.tx import Tx

T = TypeVar("T")

GLANCE_STEPS_MAX = 20_000  # of the database, per statement: about a millisecond


class Reader:
    """The connections of one process that only read. What does not end in `_here` is for one event loop."""

    def __init__(self, path: Path, file: Identity, clock: Clock) -> None:
        self._path = path
        self._file = file
        self._clock = clock
        self._connection = connect(path, read_only=True)
        self._quick = connect(path, read_only=True)
        self._quick.set_busy_timeout(0)
        self._quick.set_progress_handler(lambda: True, GLANCE_STEPS_MAX)  # true: break it off
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="planrun-ledger-reader")

    async def glance(self, query: Callable[[Tx], T]) -> T:
        """A look at a few rows, right here: to hand it to a thread and back takes longer.

        What would have to wait, or turns out to be long, goes to the thread after all.
        """
        self._refuse_loss()
        try:
            return self._moment(self._quick, query)
        except apsw.Error:
            return await self.read(query)  # which has the time, and says what is wrong

    async def read(self, query: Callable[[Tx], T]) -> T:
        """One after the other, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read_now, query)

    def read_here(self, query: Callable[[Tx], T]) -> T:
        """As `read`, for whoever blocks."""
        return self._thread.submit(self._read_now, query).result()

    async def read_apart(self, query: Callable[[Tx], T]) -> T:
        """In the way of no other."""
        return await asyncio.to_thread(self.read_apart_here, query)

    def read_apart_here(self, query: Callable[[Tx], T]) -> T:
        """As `read_apart`, for whoever blocks."""
        self._refuse_loss()
        try:
            connection = connect(self._path, read_only=True)
        except apsw.Error as error:
            raise LedgerUnavailable(trouble(self._path, error)) from None
        try:
            return self._look(connection, query)
        finally:
            connection.close()

    async def back_up(self, path: Path) -> None:
        """See `database.back_up`."""
        await asyncio.get_running_loop().run_in_executor(self._thread, back_up, self._connection, path)

    def close(self) -> None:
        self._thread.shutdown()
        self._connection.close()
        self._quick.close()

    def _read_now(self, query: Callable[[Tx], T]) -> T:
        self._refuse_loss()
        return self._look(self._connection, query)

    def _refuse_loss(self) -> None:
        if loss := self._file.find_loss():
            raise LedgerUnusable(loss)

    def _look(self, connection: apsw.Connection, query: Callable[[Tx], T]) -> T:
        try:
            return self._moment(connection, query)
        except apsw.Error as error:
            raise LedgerUnavailable(trouble(self._path, error)) from None

    def _moment(self, connection: apsw.Connection, query: Callable[[Tx], T]) -> T:
        """One consistent look: all statements of the query see the same commit."""
        connection.execute("BEGIN")
        try:
            return query(SqliteTx(connection, self._clock.now()))
        finally:
            connection.execute("COMMIT")
