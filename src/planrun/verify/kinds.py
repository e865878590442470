"""The jobs of a verify run: short, and what they produce differs by attempt."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from planrun.jobs import JobContext, Permanent, job

KIND = "verify-work"
REFUSED = "as-asked"
STEPS = 20
STARTS, DONE = "starts", "done"
NAMES = ("first", "second", "out")  # of its files, in the order in which they are stored; the last one is the large one


@job(KIND, output_bytes_max="16MiB", stall_s=600, result_ttl="1d")
def work(j: JobContext) -> dict[str, Any]:
    """Write files that no other attempt would write, over some seconds.

    Params: number (of the job in its run), notes (folder), seconds, bytes, refuses (fail once and for good).
    """
    nonce = os.urandom(8).hex()
    number, notes = int(j.params["number"]), Path(j.params["notes"])
    note = {"number": number, "attempt": j.attempt, "nonce": nonce}
    _append(notes / STARTS, note)
    if j.params["refuses"]:
        raise Permanent("this job was asked to fail", code=REFUSED)
    head = f"{number} {j.attempt} {nonce}\n".encode()
    paths = {name: j.scratch / name for name in NAMES}
    for path in paths.values():
        path.write_bytes(head)
    with paths[NAMES[-1]].open("ab") as file:
        for step in range(STEPS):
            file.write(os.urandom(int(j.params["bytes"]) // STEPS))
            j.progress((step + 1) / STEPS)
            time.sleep(float(j.params["seconds"]) / STEPS)
    _append(notes / DONE, note)
    return {**paths, "attempt": j.attempt, "nonce": nonce}


def _append(file: Path, line: dict[str, Any]) -> None:
    """One write at the end of the file: it is there whole, whatever becomes of this process."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, json.dumps(line).encode() + b"\n")
    finally:
        os.close(descriptor)
