"""`planrun verify`: does this installation keep the promise while it is tortured?"""

from __future__ import annotations

import asyncio
import math
import os
import random
import signal
from dataclasses import asdict, dataclass
from typing import Annotated

from cyclopts import Parameter

from planrun.cli.asking import AsJson, Flag, Url, Word
from planrun.cli.check_fleet import look_at_bucket, look_at_orchestrator, look_at_services
from planrun.cli.exits import Exit
from planrun.cli.findings import Findings
from planrun.cli.printing import print_facts, print_json
from planrun.cli.saying import say
from planrun.clock import SystemClock
from planrun.config import BROKER_VARIABLE, STORE_VARIABLE, place_of, store_from, url_from
from planrun.core.access import Scope
from planrun.core.errors import Invalid, LedgerUnavailable
from planrun.core.fleet import Fleet
from planrun.core.names import NAME_RULE, is_name
from planrun.storage.contract import Store
from planrun.verify.report import Report
from planrun.verify.stage import Asked
from planrun.verify.torture import torture
from planrun.wiring import open_shared_store, open_store

MINUTES = 2.0
MINUTES_MIN, MINUTES_MAX = 0.1, 600.0
JOBS_PER_MINUTE = 60
SEED_BELOW = 1_000_000


def verify(
    *,
    minutes: float = MINUTES,
    jobs: Annotated[int | None, Parameter(show_default=False)] = None,
    seed: Annotated[int | None, Parameter(show_default=False)] = None,
    namespace: Word = "",
    keep: Flag = False,
    store: Annotated[str, Parameter(env_var=STORE_VARIABLE, show_default=False)] = "",
    broker: Annotated[str, Parameter(env_var=BROKER_VARIABLE, show_default=False)] = "",
    json: AsJson = False,
    url: Url = None,
) -> int:
    """Torture this installation for some minutes, with jobs and workers of its own, and count what came of it.

    It starts three workers here, hands jobs in, many of them several times, and meanwhile kills, freezes, cuts off and
    replaces its own workers and kills single jobs. It touches no other process, and no job of another namespace. What
    stays in the ledger are ended jobs of a namespace verify-…, which go as all others do.

    Once a minute it says how far it is. Exit code 0: everything held. 1: something was lost, doubled or overwritten,
    and the report names the jobs; or the store or broker does not keep what planrun needs; or nothing was tested, for
    no fault happened, or no job was taken over from a worker that was hit, or none finished.

    For example:

      planrun verify
      planrun verify --minutes 10 --url https://planrun.internal:8470 --json

    Args:
        minutes: How long it takes, about.
        jobs: How many are handed in; without it, 60 a minute.
        seed: For the same jobs and faults again, as the report says it.
        namespace: One that nobody uses; without it, a fresh one. A token must be for it.
        keep: Leave the folder with the workers' logs and the jobs' notes, and say where.
        store: As for planrun worker.
        broker: The fleet's, by the name that this machine knows, or with an account that may declare a queue: for
            messages. Without it, as workers are told.
    """
    if not math.isfinite(minutes) or not MINUTES_MIN <= minutes <= MINUTES_MAX:
        raise Invalid(f"--minutes {minutes:g}: use {MINUTES_MIN:g} to {MINUTES_MAX:g}")
    jobs = max(1, round(minutes * JOBS_PER_MINUTE)) if jobs is None else jobs
    if jobs < 1:
        raise Invalid(f"--jobs {jobs}: use 1 or more")
    clock = SystemClock.open_system()
    namespace = namespace or f"verify-{clock.new_id()[:8]}"
    if not is_name(namespace):
        raise Invalid(f"--namespace {namespace!r}: use {NAME_RULE}")
    address = url_from(url)
    findings = Findings()
    found = _look(findings, address, store, broker, namespace)
    asked = Asked(
        url=address,
        store=found.store,
        store_url=store_from(store),
        broker=broker,
        fleet=found.fleet,
        may_operate=found.may_operate,
        namespace=namespace,
        minutes=minutes,
        jobs=jobs,
        seed=random.SystemRandom().randrange(SEED_BELOW) if seed is None else seed,
        environment=os.environ,
        keep=keep,
    )
    _say(f"verifying {place_of(address).shown} for {minutes:g} min, seed {asked.seed}")
    report = asyncio.run(_until_told(asked, clock))
    ok = report.held and not findings.problems
    if json:
        document = {**asdict(report), "held": report.held, "untested": report.untested, "verdict": report.verdict}
        print_json({"ok": ok, **document, "found": findings.document, "problems": findings.problems})
    else:
        _print_people(report, findings)
    return Exit.FINISHED if ok else Exit.FAILED


def _say(text: str) -> None:
    say(f"planrun: {text}")


async def _until_told(asked: Asked, clock: SystemClock) -> Report:
    """SIGTERM and Ctrl-C take everything down in order."""
    task = asyncio.create_task(torture(asked, clock, _say))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


@dataclass(frozen=True, slots=True)
class Found:
    """What the installation stands on; `fleet` and `may_operate` as in `Asked`."""

    store: Store
    fleet: Fleet | None = None
    may_operate: bool = True


def _look(findings: Findings, url: str, store: str, broker: str, namespace: str) -> Found:
    """Tried out as `planrun check` does it.

    Raises:
        LedgerUnavailable: The orchestrator does not answer, or not to this token.
        Invalid: The token is not one of a worker, or not for that namespace.
    """
    if not place_of(url).is_remote:
        opened = open_store(url, store)
        findings.add("results", str(opened), {"store": str(opened)})
        look_at_bucket(findings, opened)
        return Found(opened)
    met = look_at_orchestrator(findings, url, works=True)
    if met is None:
        raise LedgerUnavailable(findings.problems[0])
    needed = {Scope.WORK, Scope.SUBMIT}
    scopes = set(met.caller.scopes) | ({Scope.SUBMIT} if Scope.OPERATE in met.caller.scopes else set())
    allowed = met.caller.namespaces
    if met.fleet is None or not needed <= scopes or (allowed is not None and namespace not in allowed):
        raise Invalid(
            f"this token cannot run jobs in namespace {namespace} and hand them in; make one for a namespace that "
            "nobody uses, planrun token create --scope work --scope submit --namespace NAME, and add --namespace NAME"
        )
    look_at_services(findings, met.fleet, store=store, broker=broker)
    opened = open_shared_store(store_from(store) or met.fleet.store, met.fleet.store_access)
    _look_closer(findings, opened)
    return Found(opened, met.fleet, Scope.OPERATE in met.caller.scopes)


def _look_closer(findings: Findings, store: Store) -> None:
    """What a bucket honours is found out only by whoever may delete there, and workers need not."""
    closer = Findings()
    look_at_bucket(closer, store)
    if closer.problems and not closer.document:
        findings.add("store honours", f"not tried: {closer.problems[0]}", None)
        return
    findings.facts.extend(closer.facts)
    findings.document.update(closer.document)
    findings.problems.extend(closer.problems)


def _print_people(report: Report, findings: Findings) -> None:
    print(f"What {report.url} stands on")
    print_facts(findings.facts)
    print("\nWhat was done to it")
    print_facts(report.what_was_done())
    print("\nWhat came of it")
    print_facts(report.what_came())
    print()
    for problem in findings.problems:
        print(f"wrong: {problem}")
    for sentence in report.what_it_means():
        print(sentence)
    if report.folder:
        print(f"kept: {report.folder}")
    print(report.verdict)
