"""The world of the lab: worker A, worker B, and a store that is also one with a single key per job.

planrun's own store is untouched: each attempt writes under its own key there, and the ledger's row names the winner.
The *lab store* lies beside it, and is what many systems have: one key for the job. What is stored is put there, too,
and its reader gets what was put last. It may check tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from planrun.core.errors import StorageError
from planrun.core.names import token_shown
from planrun.inbox import read
from planrun.sim.actor import Actor
from planrun.sim.lab.history import Lane, What
from planrun.sim.lab.settings import Settings
from planrun.sim.machines import BoxWorker, Receiver, Worker
from planrun.sim.remote import FleetWorker
from planrun.sim.store import SimStore
from planrun.sim.world import World
from planrun.storage.contract import Stored
from planrun.trip import trip
from planrun.worker.options import WorkerOptions

NAMES = {"w1": Lane.A, "w2": Lane.B}
IN_UPLOAD = "upload:before-rename"
LAST_LOOK = 2  # of those that an upload takes at the lease
OUTPUT = "film"


class Tell(Protocol):
    """Writes down that something happened just now."""

    def __call__(
        self, lane: Lane, what: What, token: int | None = None, *, by: Lane | None = None, than: int | None = None
    ) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LabOptions(WorkerOptions):
    """A worker's, with the one thing that planrun decides by itself."""

    renew_every_s: float

    @property
    def heartbeat_ms(self) -> int:
        """See `WorkerOptions.heartbeat_ms`."""
        return round(self.renew_every_s * 1000)


class Watched(Worker):
    """A worker that renews as often as the lab wants it to, and says when it comes and goes."""

    def __init__(self, own: Worker, settings: Settings, tell: Tell) -> None:
        super().__init__(own.world, own.name, own.hardware)
        self.lane = NAMES[own.name]
        self._renew_every_s = settings.renew_every_s
        self._tell = tell
        self._starts = 0

    async def main(self, actor: Actor) -> None:
        self._starts += 1
        if self._starts > 1:
            self._tell(self.lane, What.START)
        await super().main(actor)

    def crash(self) -> None:
        if self.actor is not None:
            self._tell(self.lane, What.CRASH)
        super().crash()

    def deploy(self) -> None:
        self._tell(self.lane, What.TERM)
        super().deploy()

    def options(self) -> WorkerOptions:
        own = super().options()
        told = {name: getattr(own, name) for name in WorkerOptions.__dataclass_fields__}
        return LabOptions(renew_every_s=self._renew_every_s, **told)


class LabBoxWorker(Watched, BoxWorker):
    """One on the box of the ledger's file."""


class LabFleetWorker(Watched, FleetWorker):
    """One on a machine of its own."""


class LabStore(SimStore):
    """planrun's store, and the lab's beside it."""

    def __init__(self, world: World, settings: Settings, tell: Tell, *, is_late: Callable[[int], bool]) -> None:
        """
        Args:
            is_late: Has this token lost its lease already?
        """
        super().__init__(world.loop)
        own = world.store
        self.on_write, self.upload_s, self.is_reachable = own.on_write, own.upload_s, own.is_reachable
        self._is_late = is_late
        self._world = world
        self._settings = settings
        self._tell = tell
        self._shelf: int | None = None  # the token that the one key of the job was last written with
        self._newest = 0  # token that the lab store has seen

    def put(self, prefix: str, name: str, source: Path, *, may_go_on: Callable[[], bool]) -> Stored:
        """See `Store.put`. A fault in its middle comes after the last look at the lease: nothing asks any more.

        Raises:
            StorageError: The lab store checks tokens, and this one is older than one that it has seen.
        """
        looks = 0

        def look() -> bool:
            nonlocal looks
            looks += 1
            is_fine = may_go_on()
            if is_fine and looks == LAST_LOOK:
                trip(IN_UPLOAD)
            return is_fine

        self._tell(self._by(), What.UPLOAD, _token_in(prefix))
        return super().put(prefix, name, source, may_go_on=look)

    def _write(self, key: str, data: bytes) -> None:
        if not key.rpartition("/")[2].startswith(OUTPUT):
            super()._write(key, data)
            return
        token, before, by = _token_in(key), self._shelf, self._by()
        if not self._settings.attempt_keys:
            if self._settings.fencing and token < self._newest:
                self._tell(Lane.STORE, What.REFUSE, token, by=by, than=self._newest)
                raise StorageError(f"token {token} is older than {self._newest}")
            self._shelf, self._newest = token, max(self._newest, token)
        super()._write(key, data)
        self._tell(Lane.STORE, self._what(token, before), token, by=by, than=before)

    def _what(self, token: int, before: int | None) -> What:
        if self._settings.attempt_keys:
            return What.ASIDE if self._is_late(token) else What.STORE
        if before is None or before == token:
            return What.STORE
        return What.OVERWRITE if token < before else What.REPLACE

    def _by(self) -> Lane:
        return NAMES[self._world.loop.current.name]


class LabReceiver(Receiver):
    """The application's end, which says when it has heard."""

    def __init__(self, own: Receiver, tell: Tell) -> None:
        super().__init__(own.world, own.name, own.hardware)
        self._tell = tell

    def take(self, msg_id: str, body: str) -> None:
        is_new = msg_id not in self.acts
        super().take(msg_id, body)
        token = read(body).result.token
        if is_new:
            self._tell(Lane.LEDGER, What.ANNOUNCE, None if token is None else token_shown(token))


def _token_in(key: str) -> int:
    """As people see it, from the part of a key that names the attempt: `<attempt>-<token>`."""
    return token_shown(int(key.split("/")[3].partition("-")[2], 16))
