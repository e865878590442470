"""The part of `planrun check` that tries out what a fleet consists of: orchestrator, broker, store."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from importlib.metadata import version

from planrun.cli.findings import Findings
from planrun.clock import SystemClock
from planrun.core.access import Caller, Scope
from planrun.core.errors import PlanrunError
from planrun.core.fleet import Fleet
from planrun.storage.contract import Store
from planrun.wiring import folder_of, open_shared_store, probe_parts, probe_store, touch_store
from planrun.wiring.probing import Met, meet, probe_broker

AHEAD_S_MAX = 60.0


def look_at_orchestrator(findings: Findings, url: str, *, works: bool) -> Met | None:
    """Does it answer, and what is the token of this process for? None: there is no talking to it.

    Args:
        works: This is about a worker: its token has to be one.
    """
    findings.add("ledger", f"of the orchestrator at {url}", {"url": url})
    try:
        met = asyncio.run(meet(url, SystemClock.open_system()))
    except PlanrunError as error:
        findings.problems.append(str(error))
        return None
    caller, ahead_s = met.caller, met.ahead_ms / 1000
    findings.add(
        "orchestrator",
        f"planrun {caller.version}{f', generation {met.generation}' if met.generation else ''}, "
        f"its clock {abs(ahead_s):.1f} s {'ahead' if ahead_s > 0 else 'behind'}",
        {"version": caller.version, "generation": met.generation, "ahead_s": ahead_s},
    )
    findings.add("token", _token(caller), {"scopes": caller.scopes, "namespaces": caller.namespaces})
    if abs(ahead_s) > AHEAD_S_MAX:
        findings.problems.append(
            f"the clocks of this machine and of the orchestrator's differ by {abs(ahead_s):.0f} s: set them by NTP; "
            "an S3 server refuses who is 15 minutes off"
        )
    if caller.version != version("planrun"):
        findings.facts.append(("", "another version than here: upgrade the orchestrator first, then the workers"))
    if works and Scope.WORK not in caller.scopes:
        findings.problems.append("this token is not one of a worker: planrun token create --scope work")
    return met


def look_at_services(findings: Findings, fleet: Fleet, *, store: str, broker: str) -> None:
    """Broker and store, as a worker of that fleet would use them.

    Args:
        store, broker: Other names for them, on this machine; empty: those that the orchestrator tells.
    """
    if fleet.broker:
        look_at_broker(findings, broker or fleet.broker, fleet.broker_prefix, owns=False)
    else:
        findings.add("broker", "none: workers ask the orchestrator for jobs", None)
    try:
        opened = open_shared_store(store or fleet.store, fleet.store_access)
        findings.add("results", str(opened), {"store": str(opened)})
        if (folder := folder_of(opened)) is not None and not folder.is_dir():
            findings.problems.append(f"results lie in {folder}, which is not on this machine: mount it, or use S3")
            return
        asyncio.run(touch_store(opened))
        probe_parts(opened)
    except PlanrunError as error:
        findings.problems.append(str(error))


def look_at_broker(findings: Findings, url: str, prefix: str, *, owns: bool) -> None:
    """Make queues, send, take, delete."""
    try:
        report = asyncio.run(probe_broker(url, prefix, SystemClock.open_system(), owns=owns))
    except PlanrunError as error:
        findings.problems.append(str(error))
        return
    took = "" if report.round_trip_ms is None else f", a message confirmed and taken within {report.round_trip_ms} ms"
    returned = ", what has no queue returned" if report.returns else ""
    findings.add("broker", f"{report.product}{took}{returned}", asdict(report))
    findings.problems.extend(report.problems)


def look_at_bucket(findings: Findings, store: Store) -> None:
    """A folder is looked at with the others; a bucket is tried out, since servers differ."""
    if folder_of(store) is not None:
        return
    try:
        report = probe_store(store)
        probe_parts(store)
    except PlanrunError as error:
        findings.problems.append(str(error))
        return
    findings.add("store honours", f"{report.sentence}, uploads in parts", asdict(report))
    findings.problems.extend(report.problems)


def _token(caller: Caller) -> str:
    names = "all namespaces" if caller.namespaces is None else f"namespaces {', '.join(caller.namespaces)}"
    return f"{f'{caller.name}: ' if caller.name else ''}{', '.join(caller.scopes)}; {names}"
