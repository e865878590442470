"""A worker reduced to what matters here: it holds a lock file and one job process.

    python standin_worker.py LEVEL FOLDER TAG SRC

Prints the launcher's process id once the job has started its children; then waits to be killed.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[4])

from planrun.core.kinds import Kind
from planrun.worker.environment import job_environment
from planrun.worker.happenings import Progress
from planrun.worker.isolation import Level
from planrun.worker.process import JobProcess
from planrun.worker.tree import mark_of


async def main() -> None:
    level, folder, tag = Level(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_EX)
    process = await JobProcess.start(
        level=level,
        folder=folder / "process",
        mark=mark_of(tag, 1),
        lock_fd=lock,
        environment=job_environment(os.environ),
        import_path=[Path(__file__).parent],
    )
    for own in ("scratch", "tmp", "home"):
        (folder / "attempt" / own).mkdir(parents=True, exist_ok=True)
    process.run(
        Kind(kind="orphans", version="v1", module="lab_jobs"),
        params={"tag": tag},
        inputs={},
        scratch=folder / "attempt" / "scratch",
        checkpoint=None,
        attempt=1,
        hint="",
        log=folder / "attempt.log",
    )
    while True:
        happening = await process.next()
        if isinstance(happening, Progress):
            print(process._launcher.pid, flush=True)


asyncio.run(main())
