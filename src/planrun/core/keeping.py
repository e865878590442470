"""What is kept how long, and when the clock may be believed about it.

Ages are counted on the wall clock, which people set. So nothing is dropped while that clock is
*doubted*: for a day of running time after the first look, and after any step that the boottime does
not explain. Whoever sets it a year ahead by mistake has that day to set it back.
"""

from __future__ import annotations

from datetime import UTC, datetime

from planrun.core.kinds import DAY_S
from planrun.core.life import State
from planrun.core.messages import Lease, Struct

JOB_TTL_S = 14 * DAY_S
IDS_TTL_S = 90 * DAY_S
IDS_TTL_S_MIN = 7 * DAY_S
MESSAGE_TTL_MS = 1 * DAY_S * 1000
WORKER_TTL_MS = 30 * DAY_S * 1000
BATCH_MAX = 100

STEP_MS_MAX = DAY_S * 1000
DOUBT_MS = DAY_S * 1000


class Keep(Struct, kw_only=True):
    """How long what is kept, where its kind does not say it itself (`result_ttl`).

    Attributes:
        job_ttl_s: How long ended jobs stay in the ledger before they are archived; longer if their result does.
        ids_ttl_s: How long the ids of archived jobs, and the request ids that led to them, are still known.
    """

    job_ttl_s: float = JOB_TTL_S
    ids_ttl_s: float = IDS_TTL_S


class Owed(Struct, kw_only=True):
    """Answers that nobody has taken, although they were sent several times.

    Attributes:
        answers: How many.
        job_id, msg_id, route, tries, ended_at_ms: Of the oldest one, and when its job ended.
    """

    answers: int
    job_id: str
    msg_id: str
    route: str
    tries: int
    ended_at_ms: int


class Stale(Struct, kw_only=True):
    """What has been kept long enough, a batch of each.

    Attributes:
        results: Jobs whose result nobody gets any more.
        jobs: Jobs to archive; their results are gone, and all files of theirs.
        messages: Ids of messages that were confirmed a day ago.
        ids: Archived jobs that nobody will know by their id any more.
        manifests: Where their answers stand in the store, if the ledger is strict.
        workers: Incarnations that were not seen for a month, and hold nothing.
    """

    results: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    manifests: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()

    @property
    def most(self) -> int:
        """The size of the largest batch."""
        return max(map(len, (self.results, self.jobs, self.messages, self.ids, self.workers)))


class Record(Struct, kw_only=True):
    """All that the ledger knows of one job, as a line of the archive.

    Attributes:
        seen: The newest event in it: a job of which more has become known is not dropped.
        line: JSON with `job`, `attempts`, `events` and `result`, as the commands print them.
    """

    job_id: str
    ended_at_ms: int
    seen: int
    line: str


class Archived(Struct, kw_only=True):
    """What the ledger still knows of a job whose record is in the archive."""

    job_id: str
    namespace: str
    state: State
    ended_at_ms: int
    archived_at_ms: int


class Garbage(Struct, kw_only=True):
    """An attempt whose objects nobody can ever see: what of them must stay, and whether one visit is the last."""

    namespace: str
    lease: Lease
    keep: tuple[str, ...] = ()
    final: bool = False


class Glance(Struct, kw_only=True):
    """What the clocks said when they were last looked at, and how long the wall clock stays doubted from there on."""

    wall_ms: int
    boot_ms: int
    epoch: str
    doubt_ms: int = DOUBT_MS


def glance(last: Glance | None, *, wall_ms: int, boot_ms: int, epoch: str) -> Glance:
    """Look at the clocks again. What passed while the machine was off is unknown, so it counts as a step."""
    if last is None:
        return Glance(wall_ms=wall_ms, boot_ms=boot_ms, epoch=epoch)
    passed_ms = max(0, boot_ms - last.boot_ms) if epoch == last.epoch else 0
    stepped_ms = wall_ms - last.wall_ms - passed_ms
    doubt_ms = DOUBT_MS if abs(stepped_ms) > STEP_MS_MAX else max(0, last.doubt_ms - passed_ms)
    return Glance(wall_ms=wall_ms, boot_ms=boot_ms, epoch=epoch, doubt_ms=doubt_ms)


def archive_file(ended_at_ms: int) -> str:
    """The file of the archive that holds the jobs which ended on that day (UTC)."""
    return f"{datetime.fromtimestamp(ended_at_ms / 1000, UTC):%Y-%m-%d}.ndjson"
