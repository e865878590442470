"""Many processes submit the same key at once, and submitters die before they hear the reply: never a second job.

The seed is printed: CHAOS_SEED repeats it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from planrun.core.life import State
from tests.lab import ROOT, Lab

TIMEOUT_S = 60

# those that made a job, and those that joined one
REQUESTS = "(SELECT request_id, job_id FROM job UNION ALL SELECT request_id, job_id FROM request)"


def start_submitter(
    lab: Lab, manner: str, calls: Sequence[dict[str, Any]], wait_s: float | None = None
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.submitter_main", lab.url, manner, json.dumps(calls), json.dumps(wait_s)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def heard_by(submitter: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """What a submitter was told, by the order of its calls."""
    text, _ = submitter.communicate(timeout=TIMEOUT_S)
    assert submitter.returncode == 0
    return [said for _, said in sorted(map(json.loads, text.splitlines()), key=lambda line: line[0])]


async def submit_at_once(
    lab: Lab, calls: Sequence[dict[str, Any]], *, wait_s: float | None = TIMEOUT_S
) -> list[dict[str, Any]]:
    """Each call in a process of its own, all released at one moment.

    Args:
        wait_s: Each waits so long for the answer; None: not at all.
    """
    return await asyncio.to_thread(heard_by, start_submitter(lab, "at-once", calls, wait_s))


async def one_for_all(lab: Lab, count: int) -> str:
    """The same key at once while nothing runs yet, after it ended, with other content, after failed and canceled."""
    params = {"starts": str(lab.starts_file), "seconds": 0.2}
    call = {"kind": "render", "params": params, "key": "one"}
    told = await submit_at_once(lab, [call] * count)
    [job_id] = {said["job_id"] for said in told}
    assert [said["disposition"] for said in told].count("new") == 1
    assert all(said["answer"] == told[0]["answer"] for said in told), told
    assert len(lab.starts(job_id)) == 1

    other = {**call, "params": {**params, "seconds": 0.3}}
    again = await submit_at_once(lab, [call] * 2 + [other] * 2)
    assert again[:2] == [{**told[0], "disposition": "answered"}] * 2
    assert again[2:] == [{"error": "conflict", "job_id": job_id}] * 2
    assert len(lab.starts()) == 1
    assert lab.rows("SELECT count(*) FROM job") == [(1,)]
    return f"{count} callers, one start, {count} equal answers"


async def after_an_end_without_result(lab: Lab, count: int) -> None:
    """A key that failed or was canceled is free: the next callers share one new job."""
    params = {"starts": str(lab.starts_file), "error": "permanent", "seconds": 2}  # nobody may come after its end
    failing = {"kind": "hurl", "params": params, "key": "fails"}
    first, second = [await submit_at_once(lab, [failing] * count) for _ in range(2)]
    assert len({said["job_id"] for said in first}) == len({said["job_id"] for said in second}) == 1
    assert first[0]["job_id"] != second[0]["job_id"]

    napping = {"kind": "nap", "params": {"starts": str(lab.starts_file), "seconds": 60}, "key": "canceled"}
    [held] = await submit_at_once(lab, [napping], wait_s=None)
    await lab.started(held["job_id"], 1)
    await lab.cancel(held["job_id"])
    told = await submit_at_once(lab, [napping] * count, wait_s=None)
    [job_id] = {said["job_id"] for said in told}
    assert job_id != held["job_id"]
    await lab.cancel(job_id)


async def retried(lab: Lab, *, logical: int, lines: int, chance: random.Random) -> str:
    """Each line submits its share in order; its process is killed after some commits and does all of it again."""
    shares = [
        [
            {
                "kind": "nap",
                "params": {"starts": str(lab.starts_file), "seconds": 0, "n": n},
                "request_id": f"request-{n}",
                "key": f"operation-{n}" if n % 2 else None,
            }
            for n in range(line, logical, lines)
        ]
        for line in range(lines)
    ]
    await lab.ledger.counts(None)  # the ledger exists, so that it can be watched
    deaths = await asyncio.gather(
        *[asyncio.to_thread(_submit_in_spite_of_deaths, lab, share, chance.random()) for share in shares]
    )
    rows = lab.rows(f"SELECT request_id, job_id FROM {REQUESTS} WHERE request_id LIKE 'request-%'")
    assert len(rows) == len({job_id for _, job_id in rows}) == logical
    assert len(lab.rows("SELECT * FROM job WHERE kind = 'nap' AND key IS NULL OR key LIKE 'operation-%'")) == logical
    return f"{logical} requests by submitters that died {sum(deaths)} times: as many jobs"


async def each_started_once(lab: Lab) -> None:
    jobs = [job_id for (job_id,) in lab.rows(f"SELECT job_id FROM {REQUESTS} WHERE request_id LIKE 'request-%'")]
    assert {row.state for row in await lab.ended(*jobs, timeout_s=600)} == {State.FINISHED}
    assert sorted(start.job_id for start in lab.starts() if start.job_id in set(jobs)) == sorted(jobs)


def _submit_in_spite_of_deaths(lab: Lab, share: Sequence[dict[str, Any]], seed: float) -> int:
    """Returns how often the submitter was killed; the last one hears everything."""
    chance = random.Random(seed)
    ids = ", ".join(f"'{call['request_id']}'" for call in share)
    query = f"SELECT count(*) FROM {REQUESTS} WHERE request_id IN ({ids})"
    deaths, done = 0, 0
    while done < len(share):
        kill_at = min(len(share), done + chance.randint(1, 12))
        submitter = start_submitter(lab, "in-turn", share)
        try:
            until = time.monotonic() + TIMEOUT_S
            while (done := lab.rows(query)[0][0]) < kill_at:
                assert time.monotonic() < until, "no commit comes"
                time.sleep(0.005)
        finally:
            submitter.kill()
            submitter.communicate()
        deaths += 1
    told = heard_by(start_submitter(lab, "in-turn", share))
    assert [said["disposition"] for said in told] == ["repeated"] * len(share), told
    return deaths


async def run(share: float, seed: int) -> None:
    with tempfile.TemporaryDirectory(prefix="planrun-key-") as folder:
        lab = Lab(Path(folder))
        try:
            lab.start_worker(slots=4)
            await lab.ready(1)
            print(await one_for_all(lab, 50), flush=True)
            await after_an_end_without_result(lab, 20)
            chance = random.Random(seed)
            print(await retried(lab, logical=max(24, round(1_000 * share)), lines=8, chance=chance), flush=True)
            await each_started_once(lab)
            await lab.check(*[job_id for (job_id,) in lab.rows("SELECT job_id FROM result")])
        finally:
            await lab.close()


def main(minutes: float | None) -> int:
    seed = int(os.environ.get("CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 1_000_000)
    print(f"CHAOS_SEED={seed}", flush=True)
    asyncio.run(run(1.0 if minutes is None else min(1.0, minutes / 10), seed))
    return 0
