"""Everything that one worker process is made of."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from planrun.clock import Clock, SystemClock
from planrun.config import Place, place_of
from planrun.core.access import digest_of
from planrun.core.errors import Invalid, LedgerUnavailable, LedgerUnusable
from planrun.core.inputs import rules_from
from planrun.core.keeping import Keep
from planrun.core.messages import WorkerRow
from planrun.ledger.contract import Ledger
from planrun.lockfile import WorkerLock
from planrun.orchestrator.archive import Archive
from planrun.orchestrator.collector import Collector
from planrun.orchestrator.duties import Duties
from planrun.orchestrator.outbox import Outbox, Webhooks
from planrun.orchestrator.publisher import Publisher
from planrun.orchestrator.retention import Retention
from planrun.orchestrator.sweeper import Sweeper
from planrun.transport.contract import WorkerTransport
from planrun.wiring import folder_of, generation_met, open_following, open_transport, scratch_root
from planrun.wiring.ground import Ground, open_ground
from planrun.worker.attempt import Tools
from planrun.worker.catalog import Catalog, open_catalog
from planrun.worker.enrolment import Enrolment
from planrun.worker.environment import job_environment
from planrun.worker.gates import Gates, Health
from planrun.worker.inputs import Inputs
from planrun.worker.isolation import Level, choose
from planrun.worker.keeper import Keeper
from planrun.worker.last_words import MOMENT_S
from planrun.worker.leftovers import Leftovers
from planrun.worker.options import WorkerOptions
from planrun.worker.pool import Pool
from planrun.worker.processes import Processes, clear_after
from planrun.worker.supervisor import Supervisor

log = logging.getLogger(__name__)

WEBHOOK_SECRET_VARIABLE = "PLANRUN_WEBHOOK_SECRET"
FOLLOW_LEASES = 5  # so many leases from one look where the fleet is to the next


@asynccontextmanager
async def open_worker(url: str, options: WorkerOptions) -> AsyncIterator[Supervisor]:
    """Everything that one worker needs, from probes to registration; its duties run while it is open.

    Raises:
        Invalid: An option that cannot be right, or a module that cannot be loaded; says what to do.
        StorageError: The store refuses what this worker wants to do there.
        LedgerUnusable: The file must not be opened here.
    """
    place = place_of(url)
    clock = SystemClock.open_system()
    environment = job_environment(os.environ, passed=options.pass_environment)
    level = choose(options.isolation)
    catalog = open_catalog(
        options.modules,
        import_path=options.import_path,
        capabilities=options.capabilities,
        environment=environment,
    )
    scratch = _scratch_root(options, place)
    async with open_ground(url, options.store, clock, slots=options.slots) as ground:
        options = replace(options, lease_s=options.lease_s or ground.lease_s)
        lock = WorkerLock.acquire(place.workers, clock.new_id())
        with ExitStack() as undo:  # who never became a worker leaves no lock file
            undo.callback(lock.remove)
            row = _row(options, catalog, lock, secret=clock.new_id() + clock.new_id() if place.is_remote else None)
            ledger = ground.ledger
            gates = _gates(options, row, ground, scratch, clock)
            processes = Processes(
                level=level,
                incarnation=row.incarnation,
                lock_fd=lock.fd,
                environment=environment,
                import_path=options.import_path,
                scratch=scratch,
                idle_max=options.slots,
            )
            transport = (
                open_following(
                    ledger,
                    clock,
                    row,
                    broker=ground.broker,
                    broker_prefix=ground.broker_prefix,
                    every_s=FOLLOW_LEASES * options.lease_ms / 1000,
                )
                if place.is_remote
                else open_transport(ledger, clock, row)
            )
            post = Post(
                place=place,
                clock=clock,
                ground=ground,
                lock=lock,
                row=row,
                catalog=catalog,
                scratch=scratch,
                gates=gates,
                processes=processes,
                transport=transport,
                clear=partial(clear_after, scratch),
                environment=os.environ,
            )
            undo.pop_all()
        async with man(post, options) as supervisor:
            _greet(row, catalog, place, level)
            yield supervisor


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """All that a worker stands on, open.

    Attributes:
        clear: Ends what the killed launchers of a dead worker have left, and removes its folders. Blocks.
        environment: For the programs that take answers.
        webhooks: Who sends webhooks; None: over the network.
    """

    place: Place
    clock: Clock
    ground: Ground
    lock: WorkerLock
    row: WorkerRow
    catalog: Catalog
    scratch: Path
    gates: Gates
    processes: Pool
    transport: WorkerTransport
    clear: Callable[[str], None]
    environment: Mapping[str, str]
    webhooks: Webhooks | None = None


@asynccontextmanager
async def man(post: Post, options: WorkerOptions) -> AsyncIterator[Supervisor]:
    """Register, and do the duties while it is open; then give back what the post was made of, but the ground."""
    place, clock, row, ledger = post.place, post.clock, post.row, post.ground.ledger
    inputs = _inputs(options, post.ground, is_fleet=place.is_remote)
    keeper = Keeper(post.transport, clock, options, row.incarnation)
    tools = Tools(ledger, post.ground.store, clock, keeper, inputs, who=row.name, is_fleet=place.is_remote)
    stop = asyncio.Event()
    beside = [asyncio.create_task(_duties_of(post, options).run(stop))]
    try:
        await ledger.register(row)
        if place.is_remote:
            enrolment = Enrolment(ledger, clock, row, generation=partial(generation_met, ledger))
            beside.append(asyncio.create_task(enrolment.run(stop)))
        yield Supervisor(
            options,
            row=row,
            catalog=post.catalog,
            tools=tools,
            transport=post.transport,
            gates=post.gates,
            processes=post.processes,
            scratch=post.scratch,
            place=place,
        )
    finally:
        stop.set()
        await _wait_ended(beside, timeout_s=MOMENT_S if place.is_remote else None)
        post.gates.close()
        await post.transport.close()
        if await _holds_nothing(ledger, row.incarnation):
            post.lock.remove()
        else:
            post.lock.close()  # the file stays: whoever takes its lock proves us dead, and takes our jobs over


async def _wait_ended(beside: Sequence[asyncio.Task[None]], *, timeout_s: float | None) -> None:
    """Until they have ended. Those that wait for an answer after that time are stopped: they change nothing here."""
    _, late = await asyncio.wait(beside, timeout=timeout_s)
    for task in late:
        task.cancel()
    await asyncio.gather(*beside, return_exceptions=bool(late))


async def _holds_nothing(ledger: Ledger, incarnation: str) -> bool:
    try:
        async with asyncio.timeout(MOMENT_S):
            return not await ledger.held(incarnation)
    except (LedgerUnavailable, LedgerUnusable, TimeoutError):
        return False


def _row(options: WorkerOptions, catalog: Catalog, lock: WorkerLock, *, secret: str | None) -> WorkerRow:
    """
    Args:
        secret: Proves the death of this worker to a ledger elsewhere; None: whoever owns it sees the lock file.
    """
    host = socket.gethostname()
    return WorkerRow(
        incarnation=lock.path.name,
        name=options.name or f"{host}-{os.getpid()}",
        host=host,
        namespaces=options.namespaces,
        slots=options.slots,
        capabilities=catalog.capabilities,
        handlers=catalog.handlers,
        lock_file=str(lock.path) if secret is None else "",
        lock_device=lock.device,
        lock_inode=lock.inode,
        pid=os.getpid(),
        proof=digest_of(secret) if secret is not None and lock.keep_secret(secret) else "",
    )


def _inputs(options: WorkerOptions, ground: Ground, *, is_fleet: bool) -> Inputs:
    return Inputs(
        rules_from(options.allow_input, store=ground.store_url, is_fleet=is_fleet),
        ground.store,
        bytes_max=options.input_bytes_max,
        disk_free_bytes_min=options.disk_free_bytes_min,
    )


def _gates(options: WorkerOptions, row: WorkerRow, ground: Ground, scratch: Path, clock: Clock) -> Gates:
    return Gates(
        scratch=scratch,
        store=folder_of(ground.store),
        incarnation=row.incarnation,
        slots=options.slots,
        disk_free_bytes_min=options.disk_free_bytes_min,
        health=Health(options.health, clock) if options.health else None,
    )


def _duties_of(post: Post, options: WorkerOptions) -> Duties | Leftovers:
    """What runs beside the jobs. The ledger of an orchestrator is looked after there."""
    if not post.place.is_remote:
        return _duties(post, options)
    return Leftovers(
        post.ground.ledger,
        post.clock,
        workers=post.place.workers,
        scratch=post.scratch,
        clear=post.clear,
        who=post.row.name,
        proof_of_death=options.proof_of_death,
        is_well=post.gates.is_well,
    )


def _duties(post: Post, options: WorkerOptions) -> Duties:
    place, ledger, store = post.place, post.ground.ledger, post.ground.store
    sweeper = Sweeper(
        ledger,
        incarnation=post.row.incarnation,
        proof_of_death=options.proof_of_death,
        clear=post.clear,
        ends_unsupported=not options.only_sweeps,
    )
    if options.only_sweeps:
        return Duties(ledger, post.clock, sweeper=sweeper, outbox=None)
    return Duties(
        ledger,
        post.clock,
        sweeper=sweeper,
        outbox=Outbox(
            ledger,
            post.clock,
            publisher=Publisher(ledger, store, place.public),
            environment=post.environment,
            webhook_secret=post.environment.get(WEBHOOK_SECRET_VARIABLE, ""),
            webhooks=post.webhooks,
        ),
        collector=Collector(ledger, store, scratch=post.scratch, gc_grace_s=options.gc_grace_s),
        retention=Retention(
            ledger,
            store,
            Archive(place.archive),
            keep=Keep(job_ttl_s=options.job_ttl_s, ids_ttl_s=options.ids_ttl_s),
            logs=place.logs,
        ),
    )


def _scratch_root(options: WorkerOptions, place: Place) -> Path:
    """Made at once: a folder that cannot be written is said before the first job.

    Raises:
        Invalid: It cannot be made.
    """
    root = scratch_root(place, options.scratch)
    if options.scratch is None:
        return root
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Invalid(f"scratch {options.scratch}: {error.strerror}; choose another folder with --scratch") from None
    return root


def _greet(row: WorkerRow, catalog: Catalog, place: Place, level: Level) -> None:
    runs = [f"{handler.kind} {handler.version}" for handler in row.handlers if not handler.missing]
    log.info("worker %s takes %s from %s, isolation %s", row.name, ", ".join(runs) or "nothing", place.shown, level)
    for name in catalog.unverified:
        log.info(
            "capability %s is as declared, not verified; a @capability(%r) probe in a module would verify it",
            name,
            name,
        )
    for note in (*catalog.notes, *catalog.lacks):
        log.warning("%s", note)
