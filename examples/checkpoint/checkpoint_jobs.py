"""A long job that a deploy or a crash does not set back: it leaves a checkpoint after every part.

    planrun worker checkpoint_jobs &
    planrun submit primes below=2000000

Then stop the worker with SIGTERM, start it again, and see with `planrun logs JOB` where the second attempt begins.
"""

from __future__ import annotations

import json
import time

from planrun.jobs import JobContext, job

BETWEEN_CHECKPOINTS_S = 1.0


def is_prime(number: int) -> bool:
    return number > 1 and all(number % factor for factor in range(2, int(number**0.5) + 1))


@job("primes", resumable="count-1", stall_s=120)
def primes(j: JobContext) -> dict[str, int]:
    below = int(j.params["below"])
    number, count = 2, 0
    if j.checkpoint:  # what an earlier attempt left
        number, count = json.loads((j.checkpoint / "state.json").read_text())
    began = number
    j.log(f"beginning at {began}")
    folder = j.scratch / "checkpoint"
    folder.mkdir()
    due = time.monotonic() + BETWEEN_CHECKPOINTS_S
    while number < below:
        count += is_prime(number)
        number += 1
        if number % 100 == 0:
            j.progress(number / below, f"{count} primes below {number}")
            if j.stopping or time.monotonic() > due:
                (folder / "state.json").write_text(json.dumps([number, count]))
                j.progress.checkpoint()  # does not return if the worker is to stop
                due = time.monotonic() + BETWEEN_CHECKPOINTS_S
    return {"primes": count, "began": began}
