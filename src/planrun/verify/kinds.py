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


@job(KIND, output_bytes_max="8MiB", stall_s=600, result_ttl="1d")
def work(j: JobContext) -> dict[str, Any]:
    """Write a file that no other attempt would write, over some seconds.

    Params: number (of the job in its run), starts (file), seconds, bytes, refuses (fail once and for good).
    """
    nonce = os.urandom(8).hex()
    number = int(j.params["number"])
    _note(Path(j.params["starts"]), {"number": number, "attempt": j.attempt, "nonce": nonce})
    if j.params["refuses"]:
        raise Permanent("this job was asked to fail", code=REFUSED)
    out = j.scratch / "out"
    with out.open("wb") as file:
        file.write(f"{number} {j.attempt} {nonce}\n".encode())
        for step in range(STEPS):
            file.write(os.urandom(int(j.params["bytes"]) // STEPS))
            j.progress((step + 1) / STEPS)
            time.sleep(float(j.params["seconds"]) / STEPS)
    return {"out": out, "attempt": j.attempt, "nonce": nonce}


def _note(starts: Path, line: dict[str, Any]) -> None:
    """One write at the end of the file: it is there whole, whatever becomes of this process."""
    descriptor = os.open(starts, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, json.dumps(line).encode() + b"\n")
    finally:
        os.close(descriptor)
