"""Who writes down what happens in the lab: after each commit of the ledger, and at the places that the code passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apsw

from planrun.core.names import token_shown
from planrun.sim.lab.history import Fact, Lane, What
from planrun.sim.lab.stage import NAMES
from planrun.sim.world import World

JOB = "SELECT state, token, incarnation, lease_until_ms FROM job LIMIT 1"
EVENTS = """SELECT event.id, event.what, attempt.token, attempt.incarnation FROM event
  LEFT JOIN attempt USING (job_id, attempt) WHERE event.id > ? ORDER BY event.id"""
STAGED = "SELECT token FROM attempt WHERE staged IS NOT NULL"  # written with the answer to "do I still hold it?"
ENDED = {"permanent", "transient", "fatal", "stalled", "overtime"}
FENCED = "fence:after-check"
HEARD = (What.WON, What.LOST, What.NEWS, What.NOT_HELD, What.STOPPED, What.BACK, What.RETRY, What.CRASH)
DONE = "job:done"


class Watch:
    """Attributes:
    facts: What was seen, in order.
    on_first_grant: Called then, once: the seconds of a run count from there.
    """

    def __init__(self, world: World, *, owner: str) -> None:
        """
        Args:
            owner: A party on the machine of the ledger's file.
        """
        self._owner = owner
        self.facts: list[Fact] = []
        self.on_first_grant: Callable[[], None] = lambda: None
        self._world = world
        self._began_s: float | None = None
        self._event = 0
        self._lease: tuple[int, int] | None = None  # token, and until when
        self._held: dict[Lane, int] = {}  # the last token of each worker
        self._place: dict[int, str] = {}  # the last place that an attempt has passed
        self._over: set[int] = set()
        self._has_failed = False
        self._reader = apsw.Connection(str(world.disk.path))
        self._reader.pragma("query_only", "on")

    def close(self) -> None:
        self._reader.close()

    def tell(
        self, lane: Lane, what: What, token: int | None = None, *, by: Lane | None = None, than: int | None = None
    ) -> None:
        """See `Tell`. What comes before the first grant happened at 0."""
        began_s = self._world.loop.now_s if self._began_s is None else self._began_s
        at_ms = round((self._world.loop.now_s - began_s) * 1000)
        if token is None and lane in NAMES.values():
            token = self._held.get(lane)
        self.facts.append(Fact(at_ms=at_ms, lane=lane, what=what, token=token, by=by, than=than))

    @property
    def is_open(self) -> bool:
        """Does a worker still have to hear how its attempt ended?"""
        known = {fact.token for fact in self.facts if fact.what in HEARD}
        return any(fact.token not in known for fact in self.facts if fact.what is What.GRANT)

    def is_late(self, token: int) -> bool:
        """Has this token lost its lease?"""
        return token in self._over

    def passed(self, place: str) -> None:
        """A worker has come to a place of its code."""
        lane = NAMES.get(self._world.loop.current.name)
        token = None if lane is None else self._held.get(lane)
        if lane is None or token is None:
            return
        if place in (DONE, FENCED):
            self._place[token] = place
        if place == FENCED:
            staged: list[Any] = self._reader.execute(STAGED).fetchall()
            was_answered = any(token_shown(each) == token for (each,) in staged)
            self.tell(lane, What.HELD if was_answered else What.TRUSTS, token)

    def committed(self) -> None:
        """A transaction of the ledger was committed."""
        if not self.facts and self._reader.execute(JOB).fetchone():
            self.tell(Lane.LEDGER, What.SUBMIT)
        before = self._lease
        rows: list[Any] = self._reader.execute(EVENTS, (self._event,)).fetchall()
        for event, what, token, incarnation in rows:
            self._event = event
            machine = self._world.incarnations.get(incarnation)
            if machine is not None and token is not None:
                self._happened(what, token_shown(token), NAMES[machine.name])
        self._look_at_job(before)

    def _happened(self, what: str, token: int, by: Lane) -> None:
        match what:
            case "granted":
                self._held[by] = token
                if self._began_s is None:
                    self._began_s = self._world.loop.now_s
                    self.on_first_grant()
                self.tell(by, What.GRANT, token)
            case "lost":
                self._over.add(token)
                self.tell(Lane.LEDGER, self._how_lost(token), token, by=by)
            case "released":
                self._over.add(token)
                self.tell(Lane.LEDGER, What.BACK, token, by=by)
            case "success":
                self.tell(Lane.LEDGER, What.WON, token, by=by)
            case "refused":
                self._place[token] = what
                self.tell(Lane.LEDGER, What.LOST, token, by=by)
            case "stopped":
                self._stopped(token, by)
            case _ if what in ENDED:
                self._over.add(token)
                self.tell(Lane.LEDGER, What.RETRY, token, by=by)

    def _how_lost(self, token: int) -> What:
        """A lease that ended before its time was that of a worker proven dead."""
        box_ms = self._world.machines[self._owner].clock().boot_ms()
        has_run_out = self._lease is not None and self._lease[0] == token and self._lease[1] <= box_ms
        return What.EXPIRE if has_run_out else What.PROOF

    def _stopped(self, token: int, by: Lane) -> None:
        """An attempt that had lost its lease is over, and says so: how far had it come?"""
        place = self._place.get(token)
        if place is None:
            self.tell(by, What.NEWS, token)
        elif place == DONE:
            self.tell(by, What.NOT_HELD, token)
        elif place == FENCED:
            self.tell(by, What.STOPPED, token)

    def _look_at_job(self, before: tuple[int, int] | None) -> None:
        row: Any = self._reader.execute(JOB).fetchone()
        if row is not None and row[0] == "failed" and not self._has_failed:
            self._has_failed = True
            self.tell(Lane.LEDGER, What.FAILED)
        if row is None or row[1] is None:
            self._lease = None
            return
        _, token, incarnation, until_ms = row
        self._lease = token_shown(token), until_ms
        machine = self._world.incarnations.get(incarnation)
        if machine is not None and before is not None and before[0] == self._lease[0] and before[1] < until_ms:
            self.tell(NAMES[machine.name], What.RENEW, self._lease[0])
