"""`planrun check`: is this box fit, and is the ledger whole?"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from planrun.cli.asking import AsJson, Modules, Url, repeated, with_client
from planrun.cli.check_fleet import look_at_broker, look_at_bucket, look_at_orchestrator, look_at_services
from planrun.cli.exits import Exit
from planrun.cli.findings import Findings
from planrun.cli.printing import print_facts, print_json
from planrun.cli.words import size
from planrun.cli.workers import handler_in_words, print_workers
from planrun.client import AsyncClient
from planrun.clock import SystemClock
from planrun.config import BROKER_VARIABLE, STORE_VARIABLE, Place, place_of, url_from
from planrun.core.access import Scope
from planrun.core.durations import span
from planrun.core.errors import Invalid, PlanrunError
from planrun.core.fleet import BROKER_PREFIX
from planrun.core.keeping import Owed
from planrun.core.pauses import Pause, pause_in_words
from planrun.core.presence import Presence
from planrun.lockfile import locks_hold
from planrun.wiring import ledger_facts, open_store
from planrun.worker.catalog import open_catalog
from planrun.worker.environment import job_environment
from planrun.worker.isolation import probe

NOT_TRIED = "broker, results, locks: a worker's token (scope work) tries them too"


def check(
    *modules: Modules,
    import_path: Annotated[tuple[Path, ...], repeated("FOLDER")] = (),
    capability: Annotated[tuple[str, ...], repeated("CAPABILITY")] = (),
    scratch: Path | None = None,
    store: Annotated[str, Parameter(env_var=STORE_VARIABLE, show_default=False)] = "",
    broker: Annotated[str, Parameter(env_var=BROKER_VARIABLE, show_default=False)] = "",
    broker_prefix: Annotated[str, Parameter(env_var="PLANRUN_BROKER_PREFIX")] = BROKER_PREFIX,
    json: AsJson = False,
    url: Url = None,
) -> int:
    """Look at this box and the ledger, try broker and store out, and say what is wrong. Exit code 1 if anything is.

    With an orchestrator's address: what this machine would be as a worker or a client of that fleet.

    For example:

      planrun check
      planrun check media.jobs --json | jq .problems
      planrun check media.jobs --url https://planrun.internal:8470

    Args:
        modules: Import path of a module with @job functions: what its kinds need is checked too.
        import_path: As for planrun worker. Repeat it for more.
        capability: As for planrun worker. Repeat it for more.
        scratch: As for planrun worker.
        store: As for planrun orchestrator.
        broker: As for planrun orchestrator.
        broker_prefix: As for planrun orchestrator.
    """
    place = place_of(url_from(url))
    findings = Findings()
    findings.add("planrun", version("planrun"), version("planrun"))
    findings.add("python", platform.python_version(), platform.python_version())
    if place.is_remote:
        met = look_at_orchestrator(findings, place.url, works=bool(modules))
        if met is not None and Scope.OPERATE in met.caller.scopes:
            _look_inside(findings, url)
        if met is not None and met.fleet is not None:
            look_at_services(findings, met.fleet, store=store, broker=broker)
            _look_at_locks(findings, place)
        else:
            findings.add("not tried", NOT_TRIED, NOT_TRIED)
    else:
        _look_at_ledger(findings, place, url)
    level = probe()
    findings.add("isolation", level.sentence, level.value)
    _look_at_disk(findings, scratch or place.scratch)
    if not place.is_remote:
        _look_at_store(findings, url, store)
        if broker:
            look_at_broker(findings, broker, broker_prefix, owns=True)
    _look_at_rights(findings, (place.ledger.parent, place.store, place.logs, scratch or place.scratch))
    if modules:
        _look_at_modules(findings, modules, (*import_path, Path.cwd()), capability)
    ok = not findings.problems
    if json:
        print_json({"ok": ok, **findings.document, "problems": findings.problems})
    else:
        _print_people(findings)
    return Exit.FINISHED if ok else Exit.FAILED


def _look_at_locks(findings: Findings, place: Place) -> None:
    """By a lock a worker that starts anew proves that the one before is dead, and frees its leases."""
    try:
        holds = locks_hold(place.workers, f"check-{SystemClock.open_system().new_id()}")
    except OSError as error:
        findings.problems.append(f"{place.workers}: {error.strerror}; give this user a folder in XDG_CACHE_HOME")
        return
    findings.add("locks", f"{place.workers}, {'good' if holds else 'WORTHLESS'}", holds)
    if not holds:
        findings.problems.append(f"locks in {place.workers} keep nobody out: set XDG_CACHE_HOME to a local disk")


def _look_at_ledger(findings: Findings, place: Place, url: str | None) -> None:
    if not place.ledger.exists():
        findings.add("ledger", f"none yet at {place.ledger}: the first submit or worker makes it", None)
        return
    try:
        facts = ledger_facts(url_from(url))
        findings.add(
            "ledger",
            f"{place.ledger}, {facts.engine}, schema {facts.schema}, {size(facts.bytes)}",
            {"path": str(place.ledger), **asdict(facts)},
        )
    except PlanrunError as error:
        findings.problems.append(str(error))
        return
    _look_inside(findings, url)


def _look_inside(findings: Findings, url: str | None) -> None:
    try:
        counts, broken, owed, workers, pauses = with_client(url, _ask)
    except PlanrunError as error:
        findings.problems.append(str(error))
        return
    findings.add("jobs", ", ".join(f"{count} {state}" for state, count in counts.items()), counts)
    findings.add("violations", f"{len(broken)}" if broken else "none", broken)
    findings.add("owed in vain", "none" if owed is None else f"{owed.answers} answers", owed)
    if owed is not None:
        findings.problems.append(_owed_in_words(owed))
    findings.add("paused", "; ".join(map(pause_in_words, pauses)), pauses)
    findings.problems.extend(f"the ledger breaks a rule: {text}" for text in broken)
    findings.document["workers"] = workers


def _owed_in_words(owed: Owed) -> str:
    since = span(SystemClock.open_system().now().wall_ms - owed.ended_at_ms)
    sent = f"{owed.answers} answer{' is' if owed.answers == 1 else 's are'} sent in vain"
    return (
        f"{sent}, the oldest, of job {owed.job_id} to {owed.route}, {owed.tries} times in {since}: mend its receiver; "
        "why it fails is in the log of the orchestrator, or of the workers, as 'is not delivered'"
    )


Inside = tuple[dict[str, int], Sequence[str], Owed | None, Sequence[Presence], Sequence[Pause]]


async def _ask(client: AsyncClient) -> Inside:
    broken, owed = await client.violations(), await client.owed()
    return await client.counts(), broken, owed, await client.workers(), await client.pauses()


def _look_at_disk(findings: Findings, scratch: Path) -> None:
    folder = next(parent for parent in (scratch, *scratch.parents) if parent.is_dir())
    try:
        disk = shutil.disk_usage(folder)
    except OSError as error:
        findings.problems.append(f"scratch {scratch}: {error.strerror}; choose another folder with --scratch")
        return
    findings.add(
        "scratch",
        f"{scratch}, {size(disk.free)} free of {size(disk.total)}",
        {"path": str(scratch), "free_bytes": disk.free, "total_bytes": disk.total},
    )


def _look_at_store(findings: Findings, url: str | None, given: str) -> None:
    try:
        store = open_store(url_from(url), given)
    except PlanrunError as error:
        findings.problems.append(str(error))
        return
    findings.add("results", str(store), {"store": str(store)})
    look_at_bucket(findings, store)


def _look_at_rights(findings: Findings, folders: Sequence[Path]) -> None:
    """A worker would find out job by job."""
    findings.problems.extend(
        f"{folder} cannot be written by you; give this user write access to it"
        for folder in folders
        if folder.exists() and not os.access(folder, os.W_OK | os.X_OK)
    )


def _look_at_modules(
    findings: Findings, modules: Sequence[str], import_path: Sequence[Path], capabilities: Sequence[str]
) -> None:
    try:
        catalog = open_catalog(
            modules, import_path=import_path, capabilities=capabilities, environment=job_environment(os.environ)
        )
    except Invalid as error:
        findings.problems.append(str(error))
        return
    findings.add("kinds", ", ".join(map(handler_in_words, catalog.handlers)), catalog.handlers)
    words = (f"{name}{' (declared, not verified)' * (name in catalog.unverified)}" for name in catalog.capabilities)
    findings.add("capabilities", ", ".join(words), catalog.capabilities)
    findings.problems.extend(catalog.notes)
    findings.problems.extend(catalog.lacks)


def _print_people(findings: Findings) -> None:
    print_facts(findings.facts)
    workers = findings.document.get("workers", [])
    if workers:
        print()
        print_workers(workers)
    print()
    for problem in findings.problems:
        print(f"wrong: {problem}")
    if not findings.problems:
        print("all else is well" if "not tried" in findings.document else "all is well")
