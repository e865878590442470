"""Puts a run together for one installation, and takes everything down again."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from planrun.client import AsyncClient
from planrun.clock import Clock
from planrun.config import place_of
from planrun.core.errors import Invalid, PlanrunError
from planrun.core.life import ENDED
from planrun.verify.crew import LEASE_S, SIZE, SLOTS, Crew
from planrun.verify.observer import judge, read_starts
from planrun.verify.plan import plan
from planrun.verify.receivers import Receiver
from planrun.verify.report import Report
from planrun.verify.run import Run
from planrun.verify.stage import Asked, Stage, stage_in_a_fleet, stage_on_one_box

CLIENTS = 3
LOOK_EVERY_S = 0.2
MESSAGES_WITHIN_S = 40.0


async def torture(asked: Asked, clock: Clock) -> Report:
    """Do it all. Whatever happens, no process, queue or open job of the run is left.

    Raises:
        Invalid: The namespace is in use.
        PlanrunError: The installation cannot be reached, or its workers do not start.
    """
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(AsyncClient(asked.url)) for _ in range(CLIENTS)]
        await _see_that_it_is_free(clients[0], asked.namespace)
        folder = await stack.enter_async_context(_folder(keep=asked.keep))
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
            ready=partial(_ready, clients[0], name),
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
            starts=folder / "starts",
            subscribers=(stage.receiver.route,) if stage.receiver is not None else (),
        )
        stack.push_async_callback(run.cancel_open)
        began_ms = clock.boot_ms()
        await run.carry_out()
        if stage.receiver is not None:
            await _collect_messages(run, stage.receiver, clock)
        seconds = round((clock.boot_ms() - began_ms) / 1000, 1)
        return await _report(asked, stage, crew, run, clients[0], folder, seconds)


async def _open_stage(
    asked: Asked, client: AsyncClient, folder: Path, name: str, clock: Clock, stack: AsyncExitStack
) -> Stage:
    if asked.fleet is not None:
        return await stage_in_a_fleet(asked, asked.fleet, folder, name, clock, stack)
    is_alone = not any((await client.counts()).values()) and not await client.workers()
    return stage_on_one_box(asked, folder, is_alone=is_alone)


async def _report(
    asked: Asked, stage: Stage, crew: Crew, run: Run, client: AsyncClient, folder: Path, seconds: float
) -> Report:
    violations = await client.violations() if asked.may_operate else ()
    unasked = () if asked.may_operate else ("the ledger's own rules: that takes a token of scope operate",)
    count, wrongs = judge(run.stories, read_starts(folder / "starts"), violations)
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
        done={blow.value: crew.done[blow] for blow in stage.blows},
        canceled=sum(story.ask.cancel_after_s is not None for story in run.stories),
        tells=stage.receiver is not None,
        not_tried=(*stage.not_tried, *unasked),
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


async def _ready(client: AsyncClient, name: str) -> set[str]:
    """Names of the run's workers that take work; none while the ledger does not answer."""
    try:
        workers = await client.workers()
    except PlanrunError:
        return set()
    return {worker.name for worker in workers if worker.state == "ready" and worker.name.startswith(f"{name}-")}


async def _collect_messages(run: Run, receiver: Receiver, clock: Clock) -> None:
    """Wait for what is owed, and hand each copy to the story of its job."""
    until_ms = clock.boot_ms() + MESSAGES_WITHIN_S * 1000
    while clock.boot_ms() < until_ms:
        told = {copy.result.job_id for copy in await receiver.arrived()}
        if all(story.job_ids & told for story in run.stories if story.told):
            break
        await clock.sleep(LOOK_EVERY_S)
    by_id = {job_id: story for story in run.stories for job_id in story.job_ids}
    for copy in await receiver.arrived():
        if copy.result.job_id in by_id:
            by_id[copy.result.job_id].copies.append(copy)
