"""Check the protocol's two models: as they are, nothing may be found; with a guard left out, what it is there for.

    make models          all of it, a few minutes
    make models NAME=x   those whose name contains NAME

Needs spin and a C compiler. A model is small: it refutes, and does not prove for every size.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
TIMEOUT_S = 900
CLAIMS = {
    "ends<=1": "S1",
    "answers<=1": "S2",
    "heard==0": "S3",
    "granted[": "S4",
    "acts<=1": "S5",
    "ended&&": "S10",
    "acceptance cycle": "L1",
}
RESTORE = "CRASHES=0 RESTORE WITHOUT_S4"


class Check(NamedTuple):
    """One run.

    Attributes:
        model: The file, without suffix.
        flags: What is defined, beside what every run of this sort has.
        finds: The claim that must be found broken; empty: none may be.
        sort: `safety` or `liveness`.
        about: What this shows.
    """

    name: str
    model: str
    flags: str
    finds: str
    sort: str
    about: str

    @property
    def defines(self) -> list[str]:
        always = {
            ("effect", "safety"): "" if "RESTORE" in self.flags else "CANCEL",
            ("effect", "liveness"): "LIVE CRASHES=1 LOST=1",
        }.get((self.model, self.sort), "")
        return [f"-D{flag}" for flag in f"{always} {self.flags}".split()]


def effect(name: str, flags: str, finds: str, about: str, sort: str = "safety") -> Check:
    return Check(name, "effect", flags, finds, sort, about)


def heartbeat(name: str, flags: str, finds: str, about: str) -> Check:
    return Check(name, "heartbeat", flags, finds, "safety", about)


CHECKS = (
    effect("base", "", "", "two workers"),
    effect("three-workers", "WORKERS=3 CRASHES=1", "", "three workers"),
    effect("base-live", "", "", "every job ends and is heard of", "liveness"),
    effect("grant-fence", "WITHOUT_GRANT_FENCE", "S4", "a job is granted to two"),
    effect("grant-fence-is-economy", "WITHOUT_GRANT_FENCE WITHOUT_S4", "", "but nothing wrong becomes visible"),
    effect("next-attempt", "WITHOUT_NEXT_ATTEMPT", "S4", "an attempt number is used again"),
    effect("settle-fence", "WITHOUT_SETTLE_FENCE", "S1", "a late attempt ends the job again"),
    effect("requeue-fence", "WITHOUT_REQUEUE_FENCE", "S1", "a late attempt brings an ended job back in line"),
    effect("cancel-fence", "WITHOUT_CANCEL_FENCE", "S1", "a cancel ends a job that has ended"),
    effect("attempt-keys", "WITHOUT_ATTEMPT_KEYS", "S3", "a late upload replaces the delivered file"),
    effect("fence-check-is-economy", "WITHOUT_FENCE_CHECK", "", "uploads are wasted, no more"),
    effect("announce-first", "ANNOUNCE_BEFORE_SETTLE", "S2", "two answers"),
    effect("settle-first", "SETTLE_BEFORE_UPLOAD", "S3", "an answer names a file that is not there"),
    effect("losers-delete", "LOSER_DELETES", "", "harmless while a repeated settle gets the same answer"),
    effect("repeated-settle", "WITHOUT_REPEATED_SETTLE LOSER_DELETES", "S3", "the winner deletes its own file"),
    effect("inbox", "WITHOUT_INBOX", "S5", "a receiver acts twice"),
    effect("winner-kept", "WITHOUT_WINNER_KEPT", "S3", "the collector deletes the winner's file"),
    effect("collect-early", "COLLECT_EARLY", "", "whoever neither holds nor won can be collected at once"),
    effect("outbox", "WITHOUT_OUTBOX", "L1", "a job ends, and nobody hears of it", "liveness"),
    effect("reoffer", "WITHOUT_REOFFER", "L1", "a lost offer is a lost job", "liveness"),
    effect("sweeper", "WITHOUT_SWEEPER", "L1", "a dead worker's job stays with it", "liveness"),
    effect("ack-first", "ACK_BEFORE_GRANT", "", "harmless while lost offers go out again", "liveness"),
    effect("ack-first-only", "ACK_BEFORE_GRANT WITHOUT_REOFFER LOST=0", "L1", "else it loses a job", "liveness"),
    effect("restore", f"{RESTORE} LOSER_DELETES", "", "an old copy of the ledger gives no other answer"),
    effect("restore-manifest", f"{RESTORE} WITHOUT_MANIFEST", "S2", "new tokens alone do not help"),
    effect("restore-generation", f"{RESTORE} WITHOUT_GENERATION LOSER_DELETES", "S3", "nor does the manifest alone"),
    effect("restore-neither", f"{RESTORE} WITHOUT_GENERATION WITHOUT_MANIFEST", "S2", "without both: another answer"),
    heartbeat("beats", "", "", "a lease is ended only once its holder has let go"),
    heartbeat("beats-restart", "NEW_EPOCH LAST=7", "", "also when the orchestrator restarts"),
    heartbeat("box", "WITHOUT_BROKER WITHOUT_BARRIER ASKS=6", "", "who asks the ledger alone needs no marker"),
    heartbeat("extend", "WITHOUT_EXTEND", "S10", "who was told that it holds trusts itself, and nobody else does"),
    heartbeat("box-extend", "WITHOUT_BROKER WITHOUT_BARRIER WITHOUT_EXTEND", "S10", "nor without a broker"),
    heartbeat(
        "rearm", "NEW_EPOCH WITHOUT_REARM LAST=7", "S10", "what was confirmed in the dropped queue counts for nothing"
    ),
    heartbeat("barrier", "WITHOUT_BARRIER", "S10", "a confirmed heartbeat is still unread"),
    heartbeat("sticky", "WITHOUT_STICKY_EXPIRY", "S10", "a late confirm revives the holder"),
    heartbeat("sending-time", "WITHOUT_SENDING_TIME", "S10", "trust counted from the confirm"),
    heartbeat("stamp", "WITHOUT_STAMP", "S10", "a marker speaks for what ran out after it was made"),
    heartbeat("longer-lease", "WITHOUT_LONGER_LEASE", "S10", "the ledger gives less than the holder allows itself"),
    heartbeat("clock-stops", "CLOCK_STOPS", "S10", "no rule repairs a clock that stood still: fences do"),
    heartbeat(
        "ttl", "TTL=5 LAST=6", "", "heartbeats that the broker drops after a while, markers that count no longer"
    ),
    heartbeat("ttl-short", "TTL=4", "S10", "dropped too early"),
    heartbeat("ttl-any-marker", "TTL=5 WITHOUT_SOJOURN", "S10", "a marker that was under way for long"),
)


class Found(NamedTuple):
    """Attributes:
    claim: Which was broken; empty: none. `?…`: the run itself failed.
    states: How many were looked at.
    """

    claim: str
    states: str
    took_s: float


def look(check: Check) -> Found:
    """Make the verifier of one check, and run it."""
    began = time.monotonic()
    live = check.sort == "liveness"
    with tempfile.TemporaryDirectory(prefix="planrun-model-") as folder:
        shutil.copy(HERE / f"{check.model}.pml", folder)
        make = [
            ["spin", "-a", *check.defines, f"{check.model}.pml"],
            ["cc", "-O2", "-DVECTORSZ=2048", "-DCOLLAPSE", "-DNFAIR=4" if live else "-DSAFETY", "-o", "pan", "pan.c"],
            ["./pan", "-m600000", "-w24", *(["-a", "-f"] if live else [])],
        ]
        for command in make:
            done = subprocess.run(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
            if done.returncode:
                return Found(f"?{command[0]}: {done.stdout[-300:]}{done.stderr[-300:]}", "", time.monotonic() - began)
    said = done.stdout.replace(" ", "")
    errors = re.search(r"errors:(\d+)", said)
    states = re.search(r"(\S+)states,stored", said)
    if errors is None or "max search depth too small" in done.stdout or "out of memory" in done.stdout:
        return Found(f"?not searched to the end: {done.stdout[-300:]}", "", time.monotonic() - began)
    claim = ""
    if errors[1] != "0":
        first = next((line for line in done.stdout.splitlines() if line.startswith("pan:1:")), "?no reason given")
        claim = next(
            (name for text, name in CLAIMS.items() if text.replace(" ", "") in first.replace(" ", "")), f"?{first}"
        )
    return Found(claim, states[1] if states else "", time.monotonic() - began)


def main(asked: str = "") -> int:
    missing = [program for program in ("spin", "cc") if shutil.which(program) is None]
    if missing:
        print(f"not installed: {' and '.join(missing)}; on Debian or Ubuntu: apt-get install spin gcc libc6-dev")
        return 2
    checks = [check for check in CHECKS if asked in check.name]
    wrong = 0
    with ThreadPoolExecutor(2) as pool:
        for check, found in zip(checks, pool.map(look, checks), strict=True):
            good = found.claim == check.finds
            wrong += not good
            told = found.claim or "nothing"
            expected = "" if good else f"   EXPECTED {check.finds or 'nothing'}"
            print(
                f"{check.name:24} {told:8} {found.states:>12} {found.took_s:6.1f} s  {check.about}{expected}",
                flush=True,
            )
    print(f"{len(checks)} runs, {wrong} not as they must be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
