"""The same job in three languages: count to `steps`, then end as `end` says.

Arguments of each: STARTS HINT ATTEMPT STEPS STEP_S END CHECKPOINT.
"""

from __future__ import annotations

from pathlib import Path

from planrun.jobs import command

HERE = Path(__file__).parent
ARGUMENTS = [
    "{params.starts}",
    "{idempotency_hint}",
    "{attempt}",
    "{params.steps}",
    "{params.step_s}",
    "{params.end}",
    "{checkpoint}",
]

command("in-shell", ["./steps.sh", *ARGUMENTS], resumable="steps-1")
command("in-node", ["node", "{here}/steps.mjs", *ARGUMENTS], resumable="steps-1", needs=["node"])

if (HERE / "steps").exists():  # a test builds it, where there is a compiler
    command("in-c", ["./steps", *ARGUMENTS], resumable="steps-1")

command("hangs", ["sh", "-c", "exec sleep 3600 3>&- 4<&-"], stall_s=1.5)
