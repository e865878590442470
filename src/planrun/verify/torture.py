"""Puts a run together for one installation, and takes everything down again."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from planrun.client import AsyncClient
from planrun.clock import Clock
from planrun.config import place_of
from planrun.core.errors import Invalid, LedgerUnavailable
from planrun.core.life import ENDED
from planrun.orchestrator.outbox import RETRY_MS
from planrun.verify.crew import LEASE_S, SIZE, SLOTS, Crew
from planrun.verify.kinds import DONE, STARTS
from planrun.verify.observer import judge
from planrun.verify.plan import plan
from planrun.verify.receivers import Receiver
from planrun.verify.report import Report, never_done
from planrun.verify.run import Run
from planrun.verify.sight import Sight
from planrun.verify.stage import Asked, Stage, stage_in_a_fleet, stage_on_one_box
from planrun.verify.story import Copy, read_notes

CLIENTS = 3
LOOK_EVERY_S = 0.2
MESSAGES_WITHIN_S = 40.0
AFTER_LAST_S = RETRY_MS / 1000 + 1  # a copy that whoever sent it did not live to confirm comes again by then


async def torture(asked: Asked, clock: Clock, say: Callable[[str], None]) -> Report:
    """Do it all. Whatever happens, no process, queue or open job of the run is left.

    Args:
        say: Tells people, once a minute, how far it is.

    Raises:
        Invalid: The namespace is in use.
        PlanrunError: The installation cannot be reached, or its workers do not start.
    """
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(AsyncClient(asked.url)) for _ in range(CLIENTS)]
        await _see_that_it_is_free(clients[0], asked.namespace)
        folder = await stack.enter_async_context(_folder(keep=asked.keep))
        (notes := folder / "notes").mkdir()
        name = f"verify-{clock.new_id()[:8]}"
        stage = await _open_stage(asked, clients[0], folder, name, clock, stack)
        if stage.receiver is not None:
            stack.push_async_callback(stage.receiver.close)
        crew = Crew(
            stage.posts,
            name=name,
            folder=folder,
            options=stage.options,
            environment=asked.environment,
            sight=Sight(clients[0], asked.store, asked.namespace, notes / DONE),
            ready=partial(ready, clients[0], name),
            holds_others_up=stage.holds_others_up,
            clock=clock,
        )
        stack.push_async_callback(crew.close)
        await crew.start()
        run = Run(
            plan(
                asked.seed,
                minutes=asked.minutes,
                jobs=asked.jobs,
                lease_s=LEASE_S,
                ledger_s=stage.ledger_s,
                blows=stage.blows,
            ),
            crew,
            clients,
            asked.store,
            clock,
            name=name,
            namespace=asked.namespace,
            notes=notes,
            say=say,
            subscribers=(stage.receiver.route,) if stage.receiver is not None else (),
        )
        stack.push_async_callback(run.cancel_open)
        began_ms = clock.boot_ms()
        await run.carry_out()
        strangers = await collect_messages(run, stage.receiver, clock) if stage.receiver is not None else []
        await run.look_back()
        seconds = round((clock.boot_ms() - began_ms) / 1000, 1)
        return await _report(asked, stage, crew, run, clients[0], folder, seconds, strangers)


async def _open_stage(
    asked: Asked, client: AsyncClient, folder: Path, name: str, clock: Clock, stack: AsyncExitStack
) -> Stage:
    if asked.fleet is not None:
        return await stage_in_a_fleet(asked, asked.fleet, folder, name, clock, stack)
    is_alone = not any((await client.counts()).values()) and not await client.workers()
    return stage_on_one_box(asked, folder, is_alone=is_alone)


async def _report(
    asked: Asked,
    stage: Stage,
    crew: Crew,
    run: Run,
    client: AsyncClient,
    folder: Path,
    seconds: float,
    strangers: Sequence[Copy],
) -> Report:
    violations = await client.violations() if asked.may_operate else ()
    unasked = () if asked.may_operate else ("the ledger's own rules: that takes a token of scope operate",)
    count, wrongs = judge(run.stories, read_notes(folder / "notes" / STARTS), violations, strangers)
    done = {blow.value: crew.done[blow] for blow in stage.blows}
    return Report(
        namespace=asked.namespace,
        url=place_of(asked.url).shown,
        seed=asked.seed,
        seconds=seconds,
        workers=SIZE,
        slots=SLOTS,
        lease_s=LEASE_S,
        processes=crew.started,
        clients=CLIENTS,
        done=done,
        canceled=sum(story.ask.cancel_after_s is not None for story in run.stories),
        tells=stage.receiver is not None,
        not_tried=(*stage.not_tried, *unasked, *never_done(done, count)),
        count=count,
        wrongs=tuple(wrongs),
        folder=str(folder) if asked.keep else "",
    )


async def _see_that_it_is_free(client: AsyncClient, namespace: str) -> None:
    """
    Raises:
        Invalid: Somebody has jobs or workers there.
    """
    counts = await client.counts(namespace=namespace)
    if any(number for state, number in counts.items() if state not in ENDED):
        raise Invalid(f"namespace {namespace} has open jobs; name one that nobody uses with --namespace")
    for worker in await client.workers():
        if namespace in worker.namespaces and worker.state not in ("gone", "lost"):
            raise Invalid(
                f"worker {worker.name} serves namespace {namespace}; name one that nobody uses with --namespace, "
                "or wait a minute if that worker was killed"
            )


@asynccontextmanager
async def _folder(*, keep: bool) -> AsyncIterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="planrun-verify-"))
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


async def ready(client: AsyncClient, name: str) -> set[str]:
    """Names of the run's workers that take work; none while the ledger does not answer."""
    try:
        workers = await client.workers()
    except LedgerUnavailable:
        return set()
    return {worker.name for worker in workers if worker.state == "ready" and worker.name.startswith(f"{name}-")}


async def collect_messages(run: Run, receiver: Receiver, clock: Clock) -> list[Copy]:
    """Wait for what is owed, and then for what nobody is owed; hand each copy to the story of its job.

    Returns:
        Copies that belong to none.
    """
    until_ms = clock.boot_ms() + MESSAGES_WITHIN_S * 1000
    while clock.boot_ms() < until_ms:
        told = {copy.result.job_id for copy in await receiver.arrived()}
        if all(story.job_ids & told for story in run.stories if story.told):
            break
        await clock.sleep(LOOK_EVERY_S)
    until_ms = clock.boot_ms() + AFTER_LAST_S * 1000
    while clock.boot_ms() < until_ms:
        await receiver.arrived()
        await clock.sleep(LOOK_EVERY_S)
    by_id = {job_id: story for story in run.stories for job_id in story.job_ids}
    strangers = []
    for copy in await receiver.arrived():
        if copy.result.job_id in by_id:
            by_id[copy.result.job_id].copies.append(copy)
        else:
            strangers.append(copy)
    return strangers
