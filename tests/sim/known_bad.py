"""Builds that are known to be bad: a guard of the protocol is taken down in a copy, and the simulator has to notice.

    python -m tests.sim.known_bad            all of them; for each, how many seeds it took
    python -m tests.sim.known_bad --name x   those whose name contains x

The models say what must be found (`models/run.py`): this says whether histories of the shipped code find it, too, and
how soon. What is there to save work alone must not be found at all.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from tests.guards.copies import Copy
from tests.guards.fences import Fence

SEEDS_MAX = 2_000
SEEDS_OF_ECONOMY = 200
AT_ONCE = 2
HUNT = Path(__file__).with_name("hunt.py")
SQL = "ledger/sql/sqlite"
ATTEMPT, NAMES = "worker/attempt.py", "core/names.py"
LEASE, BEATS = "core/lease.py", "orchestrator/beats.py"
ENDING, HOLDING = "ledger/verbs/ending.py", "ledger/verbs/holding.py"
STRICT = "coalesce((SELECT v FROM meta WHERE k = 'strict'), 0)"

Edit = tuple[str, str, str]


class Build(NamedTuple):
    """Attributes:
    edits: File below `src/planrun`, text that stands there once, and what replaces it.
    finds: How the rule begins that must be found broken (L: any of those); empty: nothing may be.
    mode: Of the histories; empty: of either kind.
    """

    name: str
    finds: str
    edits: tuple[Edit, ...]
    mode: str = ""


# A second line behind a guard is taken down with it: the table itself refuses a second grant of an attempt.
MANY_GRANTS = (
    "ledger/migrations/sqlite/0001_initial.sql",
    "  PRIMARY KEY(job_id,attempt)) STRICT",
    "  PRIMARY KEY(job_id,attempt,token)) STRICT",
)
ONE_KEY = (
    (NAMES, "{attempt}-{token:x}/", "0/"),
    (NAMES, 'f"{prefix}{sha256}/{name}"', 'f"{prefix}{name}"'),
    (ENDING, "if not output.key.startswith(own):", "if not output.key:"),
)
NO_S8 = ("sim/checks.py", 'if f"/{attempt}-{token:x}/" not in each["key"]:', "if False:")
PROMISED = '''    def _promised(self, paths: dict[str, Path]) -> tuple[Output, ...]:
        """What is about to be uploaded."""
        found = []
        for name, path in paths.items():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            suffix = plain_suffix(path)
            key = f"{self._prefix}{digest}/{name if name.endswith(suffix) else name + suffix}"
            found.append(Output(name=name, key=key, sha256=digest, bytes=path.stat().st_size))
        return tuple(found)

    def _put('''

PROMISED_ANSWER = '''
def _promise(tx: Tx, job: Row | None, request: SettleRequest) -> None:
    """Tell everybody what the answer will be."""
    if job is None or request.outcome is not Outcome.SUCCESS:
        return
    lease, named = request.lease, {name: job[name] for name in ("job_id", "namespace", "kind", "version")}
    won = {"attempt": lease.attempt, "token": lease.token, "outputs": request.outputs, "value": request.value}
    result = Result(state=State.FINISHED, ended_at_ms=tx.now.wall_ms, **named, **won)
    for row in tx.rows("subscribers", job_id=lease.job_id):
        _owe(tx, lease.job_id, row["route"], {"result": result})


def release('''
DELETES = (
    ATTEMPT,
    'nothing of it is visible", self.name, answer.status, answer.why)\n',
    'nothing of it is visible", self.name, answer.status, answer.why)\n'
    "        for output in outputs:\n"
    "            self.tools.store.delete(output.key)\n",
)

BUILDS = (
    Build(
        "a grant that asks neither for the state nor for the attempt",
        "S4",
        (
            (HOLDING, 'if job["state"] == State.RUNNING:', "if False:"),
            (HOLDING, 'if request.attempt != job["attempt"]:', "if False:"),
            (f"{SQL}/grant.sql", "   AND state = 'queued'\n   AND attempt = :attempt\n", ""),
            MANY_GRANTS,
        ),
    ),
    Build(
        "the same attempt again",
        "S",
        ((f"{SQL}/requeue.sql", "attempt        = attempt + 1", "attempt        = attempt"), MANY_GRANTS),
    ),
    Build(
        "a settle that asks not who holds the job",
        "S8",
        (
            (
                ENDING,
                "if job is None or not owns(job, request.lease):\n        return _settled_before(tx, request)\n    own",
                'if job is None or job["token"] is None:\n        return _settled_before(tx, request)\n    own',
            ),
            (ENDING, "if not output.key.startswith(own):", "if not output.key:"),
        ),
    ),
    Build("one key per job", "S8", ONE_KEY),
    Build("a late upload under one key per job", "S9", (*ONE_KEY, NO_S8)),
    Build(
        "an upload that asks neither the ledger nor the own deadline",
        "",
        (
            (ATTEMPT, "await self._fence(paths)", "pass"),
            (ATTEMPT, "may_go_on=lambda: self.holding.may_act(clock.boot_ms()),", "may_go_on=lambda: True,"),
        ),
    ),
    Build(
        "settled before it is uploaded",
        "S5",
        (
            (
                ATTEMPT,
                "outputs = await self._store_outputs(ran.outputs)\n",
                "outputs = self._promised(ran.outputs)\n"
                "                await self._settle(ran, outputs)\n"
                "                await self._store_outputs(ran.outputs)\n"
                "                return\n",
            ),
            (ATTEMPT, "    def _put(", PROMISED),
            (ATTEMPT, "import asyncio\n", "import asyncio\nimport hashlib\n"),
        ),
    ),
    Build(
        "a repeated settle that is told it lost, and a loser that deletes",
        "S",
        (
            (ENDING, 'result["token"] == lease.token', "False"),
            (
                ENDING,
                'if row["outcome"] not in (Outcome.LOST, Outcome.CANCELED):\n            return',
                "if False:\n            return",
            ),
            DELETES,
        ),
    ),
    Build("a loser that deletes", "", (DELETES,)),
    Build(
        "an answer that is owed before it is asked who holds the job",
        "S6",
        (
            (
                ENDING,
                "if job is None or not owns(job, request.lease):\n        return _settled_before(tx, request)\n    own",
                "_promise(tx, job, request)\n    if job is None or not owns(job, request.lease):\n"
                "        return _settled_before(tx, request)\n    own",
            ),
            (ENDING, "\ndef release(", PROMISED_ANSWER),
            (ENDING, "answers import owe_answer", "answers import _owe, owe_answer"),
            (ENDING, "    ReleaseRequest,\n", "    ReleaseRequest,\n    Result,\n"),
        ),
        "box",
    ),
    Build(
        "a collector that does not ask who won",
        "S",
        (("ledger/verbs/duties.py", 'if row["winner"] == row["token"]:', "if False:"),),
    ),
    Build(
        "nobody sends what is owed",
        "L",
        (("orchestrator/duties.py", 'loops.append(Loop("announce", partial(self._announce, self._outbox)))', "pass"),),
    ),
    Build(
        "nobody ends leases that ran out",
        "L",
        (("orchestrator/expiry.py", "await self._ledger.expire(stamp_ms=now_ms)", "pass"),),
        "box",
    ),
    Build(
        "a receiver that does not remember",
        "S3",
        (("inbox.py", "ON CONFLICT DO NOTHING", "ON CONFLICT DO UPDATE SET msg_id = excluded.msg_id"),),
    ),
    Build(
        "a late confirmation revives a holder",
        "S10",
        (
            (
                LEASE,
                "if self.expired or now_ms >= self.trusted_until_ms:\n            return replace(self, expired=True)",
                "self = replace(self, expired=False)",
            ),
        ),
        "fleet",
    ),
    Build(
        "a confirmation counts from its arrival",
        "S10",
        (("worker/keeper.py", ".confirmed(sent_ms=sent_ms,", ".confirmed(sent_ms=now_ms,"),),
        "fleet",
    ),
    Build(
        "a sweeper that sends no marker",
        "S10",
        ((BEATS, "await self._transport.mark(marker)", "await self._expiry.end(stamp_ms=now_ms, now_ms=now_ms)"),),
        "fleet",
    ),
    Build(
        "new heartbeats, and no full lease for all",
        "S10",
        ((BEATS, "await self._ledger.rearm(beat_epoch=epoch)", "0"),),
        "fleet",
    ),
    Build(
        "a marker that speaks for leases which ran out after it was made",
        "S10",
        ((BEATS, "self._expiry.end(stamp_ms=made_ms,", "self._expiry.end(stamp_ms=now_ms,"),),
        "fleet",
    ),
    Build(
        "all rules of time, where a machine's clocks stood still",
        "S10",
        (("sim/checks.py", "if not world.clocks_stood:", "if True:"),),
        "fleet",
    ),
    Build(
        "the ledger waits no longer than the holder",
        "S10",
        ((LEASE, "return lease_ms + lease_ms * 2 // 1000 + 2_000", "return lease_ms * 9 // 10"),),
        "fleet",
    ),
    Build(
        "offers that got lost are not made again",
        "L",
        (
            ("orchestrator/dispatcher.py", "await self._recall(lane, now_ms)", "pass"),
            ("orchestrator/dispatcher.py", "if breaks != self._breaks or changed is None:", "if changed is None:"),
        ),
        "fleet",
    ),
    Build(
        "an offer that is acknowledged before the grant",
        "",
        (
            (
                "worker/taking.py",
                'trip("grant:asking")\n',
                'trip("grant:asking")\n        for delivery in asking.deliveries:\n            await delivery.done()\n',
            ),
        ),
        "fleet",
    ),
    Build(
        "commits that are answered before they are on the disk",
        "S",
        (("ledger/sqlite/database.py", 'pragma("synchronous", "full")', 'pragma("synchronous", "normal")'),),
    ),
    Build(
        "restored, and tokens know of no generation",
        "S4",
        ((HOLDING, 'token_of(row["generation"], row["n"])', 'token_of(1, row["n"])'),),
        "fleet",
    ),
    Build(
        "restored, and no answer stands in the store",
        "S",
        ((f"{SQL}/end_running.sql", STRICT, "0"), (f"{SQL}/end_queued.sql", STRICT, "0")),
        "fleet",
    ),
    Build(
        "restored, and nobody notices",
        "S",
        (("orchestrator/generations.py", "problem = why_not(history, known)", 'problem = ""'),),
        "fleet",
    ),
)


class Found(NamedTuple):
    """Attributes:
    seeds: How many histories it took, or were looked at in vain.
    what: What was broken; empty: nothing.
    """

    build: Build
    seeds: int
    what: str
    took_s: float

    @property
    def is_right(self) -> bool:
        return self.what.startswith(self.build.finds) if self.build.finds else not self.what

    def __str__(self) -> str:
        found = self.what.partition(":")[0] if self.what else "nothing"
        wanted = "" if self.is_right else f", WANTED {self.build.finds or 'nothing'}: {self.what:.300}"
        return f"{self.build.name:62} {found:8} after {self.seeds:5} seeds, {self.took_s:6.1f} s{wanted}"


def look(build: Build, copy: Copy, seeds_max: int) -> Found:
    """Take the guard down, and look for a seed that does not hold."""
    began_s = time.monotonic()
    last = seeds_max if build.finds else min(seeds_max, SEEDS_OF_ECONOMY)
    fences = [Fence(build.name, *edit, ()) for edit in build.edits]
    try:
        for fence in fences:
            if copy.count(fence) != 1:
                return Found(build, 0, f"?{fence.file} has changed: bring the build up to date", 0)
            copy.take_down(fence)
        command = [sys.executable, str(HUNT), "1", str(last), build.mode]
        environment = {**os.environ, "PYTHONPATH": str(copy.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    finally:
        for fence in fences:
            copy.restore(fence)
    took_s = time.monotonic() - began_s
    if done.returncode:
        return Found(build, 0, f"?{done.stderr[-500:]}", took_s)
    found = json.loads(done.stdout)
    return Found(build, found[0] if found else last, found[1] if found else "", took_s)


def look_at(builds: Sequence[Build], *, seeds_max: int = SEEDS_MAX, at_once: int = AT_ONCE) -> Iterator[Found]:
    """All of these, as they end in their order."""
    with tempfile.TemporaryDirectory(prefix="planrun-known-bad-") as folder, ThreadPoolExecutor(at_once) as pool:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for n in range(at_once):
            copies.put(Copy(Path(folder, str(n))))

        def one(build: Build) -> Found:
            copy = copies.get()
            try:
                return look(build, copy, seeds_max)
            finally:
                copies.put(copy)

        yield from pool.map(one, builds)


def main(name: str = "", seeds_max: int = SEEDS_MAX) -> int:
    wrong = 0
    for found in look_at([build for build in BUILDS if name in build.name], seeds_max=seeds_max):
        print(found, flush=True)
        wrong += not found.is_right
    print(f"{wrong} not as they must be" if wrong else "all as they must be")
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--name", default="")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help="at most so many for each")
    asked = parser.parse_args()
    sys.exit(main(asked.name, asked.seeds))
