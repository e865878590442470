"""The only place that names concrete backends. `worker` is apart, so that a client loads none of it."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType

from httpx2 import AsyncBaseTransport

from planrun.clock import Clock, SystemClock
from planrun.config import (
    Place,
    broker_from,
    file_of,
    place_of,
    s3_access_with,
    s3_endpoint_from,
    store_from,
    token_from,
)
from planrun.core.addresses import Allowed
from planrun.core.errors import Invalid, StorageError
from planrun.core.fleet import Fleet
from planrun.core.flows import lane_of
from planrun.core.messages import WorkerRow
from planrun.core.names import digest
from planrun.core.offers import OfferQuery
from planrun.core.routes import Outlets
from planrun.core.routing import WARM_AFTER_MS
from planrun.ledger.chronicle import Chronicle
from planrun.ledger.contract import Ledger
from planrun.ledger.fleet import FleetLedger
from planrun.ledger.hands import Hands
from planrun.ledger.keyring import Keyring
from planrun.ledger.remote.ledger import RemoteLedger, open_remote
from planrun.ledger.sqlite.blocking import BlockingLedger
from planrun.ledger.sqlite.chronicle import SqliteChronicle
from planrun.ledger.sqlite.facts import LedgerFacts, facts_of
from planrun.ledger.sqlite.fleet import SqliteFleetLedger
from planrun.ledger.sqlite.keyring import SqliteKeyring
from planrun.ledger.sqlite.ledger import WAIT_S, SqliteLedger
from planrun.ledger.sqlite.migrating import upgrade
from planrun.ledger.sqlite.thread import ON_LOOP, THREADED
from planrun.ledger.sqlite.turnstile import Turnstile
from planrun.storage import probe
from planrun.storage.address import address_for, read_address
from planrun.storage.contract import Store
from planrun.storage.filesystem import FilesystemStore
from planrun.storage.probe import TOUCHED, StoreReport
from planrun.storage.remote import RemoteStore
from planrun.tls import client_context, elsewhere_context
from planrun.transport.contract import FleetTransport, WorkerTransport
from planrun.transport.embedded import EmbeddedTransport
from planrun.transport.following import FollowingTransport, Meeting

log = logging.getLogger(__name__)


def open_fleet_ledger(
    url: str,
    *,
    clock: Clock | None = None,
    broker_prefix: str | None = None,
    webhooks_allowed: Allowed | None = None,
    warm_after_s: float = WARM_AFTER_MS / 1000,
    hands: Hands = THREADED,
) -> FleetLedger:
    """Open the ledger of a fleet: as `open_ledger`, for the one process that serves it to other machines.

    Args:
        broker_prefix: Of the fleet's own queues; None: it has no broker.
        webhooks_allowed: Where its webhooks may go; None: anywhere.
        warm_after_s: From when on a job fails at once that nobody in the fleet could run.
        hands: Who writes and rings.

    Raises:
        Invalid, LedgerUnusable: As `open_ledger`.
    """
    return SqliteFleetLedger(
        file_of(url),
        clock or SystemClock.open_system(),
        outlets=Outlets(programs=False, broker_prefix=broker_prefix, webhooks=webhooks_allowed),
        warm_after_ms=round(warm_after_s * 1000),
        hands=hands,
    )


def open_ledger(
    url: str,
    *,
    clock: Clock | None = None,
    wait_s: float = WAIT_S,
    hands: Hands = THREADED,
    wire: AsyncBaseTransport | None = None,
) -> Ledger:
    """Open the ledger at an address, creating it if there is none.

    An orchestrator's is not asked anything yet.

    Args:
        wait_s: How long a write may wait for its turn before it is answered with LedgerBusy; how long an orchestrator
            that does not answer is asked again.
        hands: Who writes and rings, if it is a file.
        wire: What carries a request, if it is an orchestrator's; None: the network.

    Raises:
        Invalid: Not an address.
        LedgerUnusable: The file must not be opened here; the text says why.
    """
    place = place_of(url)
    clock = clock or SystemClock.open_system()
    if place.is_remote:
        return open_remote(place.url, clock, token=token_from(), tls=_tls(place), wait_s=wait_s, wire=wire)
    return SqliteLedger(place, clock, wait_s=wait_s, hands=hands)


def hands_for(slots: int) -> Hands:
    """Who writes for a worker: where one job runs at a time, all else waits for its commit anyway."""
    return ON_LOOP if slots == 1 else THREADED


def open_keyring(url: str, *, clock: Clock | None = None) -> Keyring:
    """Open the access tokens of the ledger at an address.

    Raises:
        Invalid: Not the address of a file.
        LedgerUnusable: The file must not be opened here; the text says why.
    """
    return SqliteKeyring(file_of(url), clock or SystemClock.open_system())


def blocking_view(ledger: Ledger) -> Ledger | None:
    """The same open ledger for callers without an event loop: its verbs never suspend. None: it has no such view."""
    return BlockingLedger(ledger) if isinstance(ledger, SqliteLedger) else None


def remote_logs(ledger: Ledger) -> RemoteLedger | None:
    """Where the logs of its jobs are read, if its orchestrator has them; None: on this box."""
    return ledger if isinstance(ledger, RemoteLedger) else None


def silence_ms(ledger: Ledger) -> int:
    """How long the orchestrator of a ledger owes an answer; 0: it owes none, or the ledger is a file."""
    return ledger.silent_ms if isinstance(ledger, RemoteLedger) else 0


async def join_fleet(ledger: Ledger) -> Fleet:
    """What the orchestrator of an open remote ledger tells its workers.

    Raises:
        LedgerUnavailable: It does not answer.
        LedgerUnusable: It does not serve this caller; says why.
    """
    assert isinstance(ledger, RemoteLedger)
    return await ledger.fleet()


def chronicle_of(ledger: Ledger) -> Chronicle:
    """The second port of a ledger that this process owns.

    Raises:
        Invalid: It is owned by another process.
    """
    if not isinstance(ledger, SqliteLedger):
        raise Invalid("only the process that has the ledger's file open can look after its generations")
    return SqliteChronicle(ledger)


def generation_met(ledger: Ledger) -> int:
    """The highest generation of an orchestrator's ledger that was met there; 0: none yet, or it is a file."""
    return ledger.generation if isinstance(ledger, RemoteLedger) else 0


def store_address(url: str, given: str | None = None, *, settle: bool = False) -> str:
    """Where the results of the ledger at an address lie: a store's own address.

    Args:
        given: Where they shall lie; None: PLANRUN_STORE, else what was settled before, else beside the ledger.
        settle: This process will store there: others are to find it.

    Raises:
        Invalid: Not the address of a store, or the ledger's results are in another one.
    """
    return address_for(place_of(url), store_from(given), settle=settle)


def open_store(url: str, given: str | None = None, *, settle: bool = False) -> Store:
    """Open the store that belongs to the ledger at an address; of an orchestrator's, what a client sees.

    Args and errors are those of `store_address`.
    """
    place = place_of(url)
    if place.is_remote:
        return RemoteStore(
            place.url, token=token_from(), tls=_tls(place), elsewhere=partial(elsewhere_context, os.environ)
        )
    return open_shared_store(store_address(url, given, settle=settle))


def open_shared_store(address: str, told: Mapping[str, str] | None = None) -> Store:
    """Open a store by its own address. Nothing is asked of it yet.

    Args:
        told: What an orchestrator says of its server and credentials; the own environment goes first.

    Raises:
        Invalid: Not an address of one, or its packages are missing.
    """
    where = read_address(address)
    if isinstance(where, Path):
        return FilesystemStore(where)
    try:
        # Not everybody has it, and nobody else must load it.
        from planrun.storage.s3 import S3Store  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "obstore":
            raise
        raise Invalid(f"{address}: obstore is not installed; pip install 'planrun[s3]'") from None
    access = s3_access_with(told or {})
    return S3Store(where.bucket, where.prefix, endpoint=s3_endpoint_from() or s3_endpoint_from(access), access=access)


def folder_of(store: Store) -> Path | None:
    """The folder of a store on this box; None: it has none."""
    return store.root if isinstance(store, FilesystemStore) else None


def probe_store(store: Store) -> StoreReport:
    """What a store really does, found out with a few small objects.

    Raises:
        StorageError: It cannot be used, or is away; says what to do.
    """
    return probe.probe(store, SystemClock.open_system().new_id())


def probe_parts(store: Store) -> None:
    """Upload a file that goes in parts, and read it back.

    Raises:
        StorageError: As `probe_store`.
    """
    probe.probe_parts(store)


async def touch_store(store: Store) -> None:
    """Find out at once whether this process may store there. A store that is away now may be back in time.

    Raises:
        StorageError: It refused; says what to do.
    """
    if isinstance(store, FilesystemStore):
        return
    try:
        await asyncio.to_thread(store.put_if_absent, TOUCHED, b"")
    except StorageError as error:
        if not error.is_away:
            raise
        log.warning("%s; jobs run, and their results wait for it", error)


def open_transport(
    ledger: Ledger,
    clock: Clock,
    row: WorkerRow,
    *,
    broker: str = "",
    broker_prefix: str = "",
    lost: Callable[[], None] | None = None,
) -> WorkerTransport:
    """A worker's end of the transport.

    Args:
        broker: Address of a RabbitMQ; empty: offers are read from the ledger.
        lost: Called each time the broker could not be reached.

    Raises:
        Invalid: Not such an address, or what is needed for it is not installed.
    """
    if broker:
        rabbitmq = rabbitmq_ends()
        told = rabbitmq.broker_at(broker, broker_prefix)
        worker: WorkerTransport = rabbitmq.RabbitWorker(
            told, ledger, clock, incarnation=row.incarnation, lane=lane_of(row), lost=lost
        )
        return worker
    query = OfferQuery(
        namespaces=row.namespaces,
        handlers=tuple(handler for handler in row.handlers if not handler.missing),
        capabilities=row.capabilities,
        limit=row.slots,
    )
    return EmbeddedTransport(ledger, clock, row.incarnation, query)


def open_following(
    ledger: Ledger, clock: Clock, row: WorkerRow, *, broker: str, broker_prefix: str, every_s: float
) -> WorkerTransport:
    """The end of a fleet's worker: as `open_transport`, and it goes where the fleet's orchestrator says by then.

    Args:
        every_s: How often that is asked, seconds.

    Raises:
        Invalid: As `open_transport`.
    """

    async def where() -> Meeting:
        fleet = await join_fleet(ledger)
        return Meeting(broker_from(fleet.broker), fleet.broker_prefix)

    def opening(at: Meeting, lost: Callable[[], None]) -> WorkerTransport:
        return open_transport(ledger, clock, row, broker=at.broker, broker_prefix=at.prefix, lost=lost)

    return FollowingTransport(Meeting(broker, broker_prefix), clock, where=where, opening=opening, every_s=every_s)


def open_fleet_transport(clock: Clock, *, broker: str, broker_prefix: str, generation: int) -> FleetTransport:
    """The orchestrator's end of the transport. It connects when it is used.

    Args:
        generation: Of the ledger.

    Raises:
        Invalid: As `open_transport`.
    """
    rabbitmq = rabbitmq_ends()
    told = rabbitmq.broker_at(broker, broker_prefix)
    fleet: FleetTransport = rabbitmq.RabbitFleet(told, clock, generation=generation)
    return fleet


def rabbitmq_ends() -> ModuleType:
    """Imported by whoever has a broker: nobody else needs its client."""
    try:
        from planrun.transport.rabbitmq import ends  # noqa: PLC0415
    except ImportError as error:
        raise Invalid(f"a broker needs {error.name}: pip install 'planrun[rabbitmq]'") from None
    return ends


def _tls(place: Place) -> ssl.SSLContext | None:
    """Whom to trust there; without TLS no certificates need be loaded."""
    return client_context(os.environ) if place.url.startswith("https:") else None


def scratch_root(place: Place, chosen: Path | None) -> Path:
    """A root of this ledger's own: folders are named by token, and tokens of two ledgers are alike.

    Args:
        chosen: Where such roots shall lie; None: beside the ledger.
    """
    if chosen is None:
        return place.scratch
    return chosen.absolute() / f"{place.ledger.name}-{digest(str(place.ledger))[:8]}"


def upgrade_ledger(url: str, *, backup: Path | None) -> None:
    """Bring an existing ledger to the schema of this planrun; to open it does the same, without a copy.

    Args:
        backup: Copy it there before; None: do not.

    Raises:
        Invalid: Not an address, or the copy cannot be made there. Nothing was changed.
        LedgerUnusable: The file must not be opened here; the text says why.
        LedgerUnavailable: Another process holds it, or the copy failed. Nothing was changed.
    """
    upgrade(file_of(url), backup=backup, wait_s=WAIT_S)


def turn_is_held(url: str) -> bool:
    """Does any process write to the ledger's file at this moment? Others wait for it.

    Raises:
        Invalid: Not the address of a file.
    """
    turnstile = Turnstile(file_of(url).turn)
    try:
        return turnstile.is_held()
    finally:
        turnstile.close()


def ledger_facts(url: str) -> LedgerFacts:
    """Engine, schema and size of an existing ledger.

    Raises:
        Invalid: Not an address.
        LedgerUnusable: The file must not be opened here; the text says why.
    """
    return facts_of(file_of(url))
