"""Which builds are known to be bad, as edits of the source: see `known_bad`."""

from __future__ import annotations

from typing import NamedTuple

SQL = "ledger/sql/sqlite"
ATTEMPT, NAMES = "worker/attempt.py", "core/names.py"
LEASE, BEATS = "core/lease.py", "orchestrator/beats.py"
ENDING, HOLDING = "ledger/verbs/ending.py", "ledger/verbs/holding.py"
STRICT = "coalesce((SELECT v FROM meta WHERE k = 'strict'), 0)"

Edit = tuple[str, str, str]


class Build(NamedTuple):
    """Attributes:
    edits: File below `src/planrun`, text that stands there once, and what replaces it.
    finds: How the rule begins that must be found broken, or one of several (L: any of those); empty: nothing may be.
    mode: Of the histories; empty: of either kind.
    sure: Kinds of faults that every history has: those that such a guard is there for. The others come by chance.
    """

    name: str
    finds: str | tuple[str, ...]
    edits: tuple[Edit, ...]
    mode: str = ""
    sure: tuple[str, ...] = ()


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
        sure=("stopped",),
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
        sure=("stopped",),
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
        sure=("words",),
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
        sure=("stopped",),
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
        sure=("crashes",),
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
        sure=("silent",),
    ),
    Build(
        "a confirmation counts from its arrival",
        "S10",
        (("worker/keeper.py", ".confirmed(sent_ms=sent_ms,", ".confirmed(sent_ms=now_ms,"),),
        "fleet",
        sure=("silent",),
    ),
    Build(
        "a sweeper that sends no marker",
        "S10",
        ((BEATS, "await self._transport.mark(marker)", "await self._expiry.end(stamp_ms=now_ms, now_ms=now_ms)"),),
        "fleet",
        sure=("unread",),
    ),
    Build(
        "new heartbeats, and no full lease for all",
        "S10",
        ((BEATS, "await self._ledger.rearm(beat_epoch=epoch)", "0"),),
        "fleet",
        sure=("hub", "broker"),
    ),
    Build(
        "a marker that speaks for leases which ran out after it was made",
        "S10",
        ((BEATS, "self._expiry.end(stamp_ms=made_ms,", "self._expiry.end(stamp_ms=now_ms,"),),
        "fleet",
        sure=("unread",),
    ),
    Build(
        "all rules of time, where a machine's clocks stood still",
        "S10",
        (("sim/checks.py", "if not world.clocks_stood:", "if True:"),),
        "fleet",
        sure=("machine",),
    ),
    Build(
        "the ledger waits no longer than the holder",
        "S10",
        ((LEASE, "return lease_ms + lease_ms * 2 // 1000 + 2_000", "return lease_ms * 9 // 10"),),
        "fleet",
        sure=("silent",),
    ),
    Build(
        "offers that got lost are not made again",
        "L",
        (
            ("orchestrator/dispatcher.py", "await self._recall(lane, now_ms)", "pass"),
            ("orchestrator/dispatcher.py", "if breaks != self._breaks or changed is None:", "if changed is None:"),
        ),
        "fleet",
        sure=("broker",),
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
        sure=("cut_power",),
    ),
    Build(
        "restored, and tokens know of no generation",
        "S4",
        ((HOLDING, 'token_of(row["generation"], row["n"])', 'token_of(1, row["n"])'),),
        "fleet",
        sure=("restore",),
    ),
    Build(
        "restored, and no answer stands in the store",
        ("S", "L"),
        ((f"{SQL}/end_running.sql", STRICT, "0"), (f"{SQL}/end_queued.sql", STRICT, "0")),
        "fleet",
        sure=("restore",),
    ),
    Build(
        "restored, and nobody notices",
        "S",
        (("orchestrator/generations.py", "problem = why_not(history, known)", 'problem = ""'),),
        "fleet",
        sure=("restore",),
    ),
)
