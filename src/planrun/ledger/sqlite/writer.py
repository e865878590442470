"""The one thread of a process that writes: what waits is gathered into one commit.

An answer is given only after the commit that holds it. After any error that ended the transaction no
verb of the batch has an answer: each runs again, alone. A verb that its caller gave up on before it
began is skipped, so that "not done" is a definite answer.

A caller that blocks anyway writes on its own thread while nobody is in its way, and so does the event loop of a worker
with one slot: two changes of threads take longer than the commit.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from planrun.clock import Clock, Instant
from planrun.core.errors import LedgerUnavailable, LedgerUnusable, PlanrunError
from planrun.ledger.hands import Bells, Hand, Queue, Turn
from planrun.ledger.sqlite.access import Access
from planrun.ledger.sqlite.answer import Answer, announce
from planrun.ledger.sqlite.database import BUSY_MS, prepared, trouble
from planrun.ledger.sqlite.identity import Identity
from planrun.ledger.sqlite.migrating import schema_known
from planrun.ledger.tx import Row, Tx
from planrun.ledger.verbs.duties import WALL_STEP_MS
from planrun.trip import trip

BATCH_MAX = 128
BATCH_MS = 20  # a transaction stays well under 50 ms, so that nobody's heartbeat waits for a bulk submit
LOCKED_PAUSE_S = 0.05

Verb = Callable[[Tx], Any]


class Call(NamedTuple):
    verb: Verb
    answer: Answer[Any]


class SqliteTx:
    """A transaction, or a consistent read, over one connection."""

    def __init__(self, connection: apsw.Connection, now: Instant) -> None:
        self._connection = connection
        self.now = now
        self.schema = schema_known()
        self.about: set[str] = set()

    def rows(self, name: str, /, **values: Any) -> list[Row]:
        text, has_rows = prepared(name)
        cursor = self._connection.execute(text, values)
        if not has_rows:
            return []
        try:
            names = [column[0] for column in cursor.get_description()]
        except apsw.ExecutionCompleteError:
            return []  # SQLite tells the columns only while there are rows
        # To its end: an unread RETURNING keeps the write lock.
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


class Writer:
    """A queue with two lanes: heartbeats first, then the others in order."""

    def __init__(
        self,
        connection: apsw.Connection,
        path: Path,
        file: Identity,
        *,
        turnstile: Turn,
        wakeup: Bells,
        clock: Clock,
        on_epoch: Verb,
        hand: Callable[[Queue], Hand],
    ) -> None:
        """
        Args:
            hand: Makes the one who drains the queue.
        """
        self._connection = connection
        self._path = path
        self._file = file
        self._turnstile = turnstile
        self._wakeup = wakeup
        self._clock = clock
        self._on_epoch = on_epoch
        self._epoch = ""
        self._offset_ms = 0  # from boottime to the wall clock, as last looked at
        self._access = Access(clock)
        self._asked_ms = 0
        self._urgent: collections.deque[Call] = collections.deque()
        self._others: collections.deque[Call] = collections.deque()
        self._writing = threading.RLock()  # whose thread has the connection
        self._begun: list[Call] = []
        self._watchers: list[Callable[[frozenset[str] | None], None]] = []
        self._closed = self._ended = False
        self._hand = hand(self)

    def call(self, verb: Verb, *, urgent: bool = False) -> Answer[Any]:
        """Queue a verb. Its answer comes after the commit, or the reason why there is none."""
        call = self._enqueue(verb, urgent=urgent)
        self._hand.ring()
        return call.answer

    def call_here(self, verb: Verb) -> Answer[Any]:
        """As `call`; but it may have been done on this thread when this returns.

        An interrupt of this thread, such as Ctrl-C, is passed on: then a verb may be done, and nothing stays locked.
        """
        call = self._enqueue(verb)
        try:
            self.drain_here()
        finally:
            if not call.answer.done:
                self._hand.ring()
        return call.answer

    def watch(self, changed: Callable[[frozenset[str] | None], None]) -> None:
        """Call back after every commit of this process, on the thread that made it."""
        self._watchers.append(changed)

    def is_settled(self) -> bool:
        """For a verb that runs now: could everybody write lately, so that silence means something?"""
        return self._access.is_settled(asked_ms=self._asked_ms)

    def close(self, *, timeout_s: float = 5) -> bool:
        """Finish what is queued. False: it still stands in line, and goes on when it is let in."""
        self._closed = True
        return self._hand.close(timeout_s)

    def _is_ours(self) -> bool:
        return self._writing._is_owned()  # type: ignore[attr-defined,no-any-return] # as threading.Condition asks it

    def _leave(self) -> None:
        """Whatever this thread still holds after a batch that was cut off is let go. Repeating it is no error."""
        if self._is_ours():
            if self._connection.in_transaction:
                self._abandon()
            self._turnstile.pass_on()
            self._connection.set_busy_timeout(BUSY_MS)
            announce(call.answer for call in self._begun)
            self._writing.release()

    def _enqueue(self, verb: Verb, *, urgent: bool = False) -> Call:
        closed = LedgerUnavailable("the ledger is closed in this process")
        if self._closed:
            raise closed
        call = Call(verb, Answer())
        (self._urgent if urgent else self._others).append(call)
        if self._ended:  # closed meanwhile, and nobody looks at the queue any more
            self._refuse_waiting(closed)
        return call

    def is_waiting(self) -> bool:
        """See `hands.Queue`, as those that follow."""
        return bool(self._urgent or self._others)

    def has_ended(self) -> bool:
        self._ended = self._closed
        return self._ended and not self.is_waiting()  # whoever comes after this look sees that it has ended

    def drain(self) -> float:
        try:
            self._writing.acquire()
            self._batch(self._turnstile.turn(in_a_hurry=lambda: bool(self._urgent)))
        except apsw.BusyError:
            self._access.failed()
            return LOCKED_PAUSE_S  # locked from outside; the callers' own limits decide how long
        except Exception as error:  # whatever it is, it must not end the hand and leave every caller waiting
            self._access.failed()
            self._refuse_waiting(self._unavailable(error))
        finally:
            self._leave()
        return 0

    def drain_here(self) -> None:
        if self._is_ours():  # a signal handler, in the middle of a batch of this thread: that one goes on undisturbed
            return
        try:
            try:
                if self._writing.acquire(blocking=False):
                    self._connection.set_busy_timeout(0)
                    self._batch(self._turnstile.turn_if_free())
            except Exception:
                self._access.failed()  # the hand meets the same, and knows what to do
            finally:
                self._leave()
        finally:
            self._leave()  # once more: the interrupt may have hit the first one

    def _next(self) -> Call | None:
        try:
            return (self._urgent or self._others).popleft()
        except IndexError:
            return None

    def _refuse_waiting(self, error: PlanrunError) -> None:
        while (call := self._next()) is not None:
            if call.answer.claim():
                call.answer.refuse(error)
                announce([call.answer])

    def _batch(self, turn: AbstractContextManager[bool]) -> None:
        """Run what waits, in one transaction, for at most BATCH_MS."""
        self._begun = []
        try:
            self._write(turn)
        except BaseException as error:  # cut off: whoever was begun and has no answer yet learns that it is not known
            for call in self._begun:
                if not call.answer.done:
                    call.answer.refuse(self._unavailable(error))
            raise
        finally:
            announce(call.answer for call in self._begun)

    def _write(self, turn: AbstractContextManager[bool]) -> None:
        answers: list[tuple[Call, Any]] = []
        self._asked_ms = self._clock.boot_ms()
        with turn as is_ours:
            if not is_ours or not (self._urgent or self._others):
                return
            tx = self._begin()
            changes = self._connection.total_changes()
            until_ms = self._clock.boot_ms() + BATCH_MS
            whole = True
            while len(answers) < BATCH_MAX and (call := self._next()) is not None:
                self._begun.append(call)  # first: an interrupt must find whoever waits for it
                if not call.answer.claim():
                    continue
                answers.append((call, self._one(tx, call)))
                if not self._connection.in_transaction:
                    whole = False
                    break
                if self._clock.boot_ms() >= until_ms:
                    break
            trip("ledger:before-commit")
            whole = whole and self._commit()
            if whole and (loss := self._file.find_loss()):
                lost = LedgerUnavailable(f"{loss}; whether the call was done is not known: make it again")
                answers = [(call, lost) for call, _ in answers]
            elif not whole:
                self._access.failed()
                answers = [(call, self._alone(call)) for call, _ in answers]
            changed = self._connection.total_changes() != changes and any(
                not isinstance(answer, BaseException) for _, answer in answers
            )
            if changed and whole:
                self._access.wrote(asked_ms=self._asked_ms)
        if changed:
            self._tell(frozenset(tx.about) if whole else None)
        for call, answer in answers:
            if isinstance(answer, BaseException):
                call.answer.refuse(answer)
            else:
                call.answer.give(answer)

    def _tell(self, about: frozenset[str] | None) -> None:
        self._wakeup.touch(about)
        for changed in self._watchers:
            changed(about)

    def _begin(self) -> SqliteTx:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            if loss := self._file.find_loss():
                raise LedgerUnusable(f"{loss}; nothing was done")
            now = self._clock.now()
            tx = SqliteTx(self._connection, now)
            offset_ms = now.wall_ms - now.boot_ms
            other_clock = now.epoch != self._epoch or abs(offset_ms - self._offset_ms) >= WALL_STEP_MS
            if other_clock:
                self._on_epoch(tx)
        except BaseException:
            self._abandon()
            raise
        if other_clock:
            self._epoch, self._offset_ms = now.epoch, offset_ms
        return tx

    def _one(self, tx: SqliteTx, call: Call) -> Any:
        """Run one verb in a savepoint: its error undoes itself and nobody else."""
        try:
            self._connection.execute("SAVEPOINT verb")
            answer = call.verb(tx)
            self._connection.execute("RELEASE verb")
        except Exception as error:
            try:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK TO verb; RELEASE verb")
            except apsw.Error:
                self._abandon()  # then nobody of the batch has an answer yet
            if not isinstance(error, apsw.Error):
                return error
            self._access.failed()
            return self._unavailable(error)
        return answer

    def _commit(self) -> bool:
        try:
            self._connection.execute("COMMIT")
        except apsw.Error:
            self._abandon()
            return False
        return True

    def _alone(self, call: Call) -> Any:
        """One verb in a transaction of its own, after the shared one failed."""
        try:
            tx = self._begin()
            answer = call.verb(tx)
            self._connection.execute("COMMIT")
        except (PlanrunError, apsw.Error) as error:
            self._abandon()
            return self._unavailable(error) if isinstance(error, apsw.Error) else error
        except Exception as error:
            self._abandon()
            return error
        return answer

    def _abandon(self) -> None:
        self._epoch = ""  # what it found about the clocks is undone, too
        if self._connection.in_transaction:
            with suppress(apsw.Error):
                self._connection.execute("ROLLBACK")

    def _unavailable(self, error: BaseException) -> PlanrunError:
        if isinstance(error, LedgerUnusable):
            return error
        return LedgerUnavailable(trouble(self._path, error))
