"""A job as an async function: many programs at once, and progress as each one ends.

planrun worker async_jobs &
planrun submit digests --input a=async_jobs.py --input b=/etc/hostname --wait
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from planrun.jobs import JobContext, Permanent, job


@job("digests", needs=["sha256sum"], stall_s=120)
async def digests(j: JobContext) -> dict[str, str]:
    if not j.inputs:
        raise Permanent("there is nothing to read; name files with --input NAME=PATH", code="no-inputs")
    found: dict[str, str] = {}

    async def read(name: str, path: Path) -> None:
        program = await asyncio.create_subprocess_exec("sha256sum", path, stdout=asyncio.subprocess.PIPE)
        text, _ = await program.communicate()
        if program.returncode != 0:
            raise Permanent(f"{name} cannot be read", code="unreadable")
        found[name] = text.split()[0].decode()
        j.progress(len(found) / len(j.inputs), name)

    await asyncio.gather(*(read(name, path) for name, path in j.inputs.items()))
    return found
