"""Commands for the tests of what a command may say; the shell line is a parameter."""

from __future__ import annotations

import asyncio

from planrun.jobs import JobContext, command, job

SHELL = ["sh", "-c", "{params.line}"]

command("shell", SHELL)
command("filled", ["printf", r"%s\n", "{inputs.text}", "<{params.n}>{params.flag}", "{print $1}", "{checkpoint}"])
command("not-here", ["nonsuch-program"])
command("script", ["{params.script}", "{checkpoint}"])


@job("async-checkpoint", resumable="1")
async def async_checkpoint(j: JobContext) -> list[str]:
    """Leaves a checkpoint while something else goes on."""
    (j.scratch / "checkpoint").mkdir()
    seen = []

    async def tick() -> None:
        while True:
            seen.append("tick")
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    taken = await asyncio.to_thread(j.progress.checkpoint)
    ticking.cancel()
    return [f"taken {taken}", *seen[:1]]
