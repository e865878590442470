"""What becomes of a command when nobody reads what it says, or nobody answers it any more."""

from __future__ import annotations

import subprocess

import pytest

from planrun.cli.exits import Exit
from planrun.client import AsyncClient
from planrun.core.errors import LedgerUnavailable
from planrun.core.messages import JobRow
from tests.e2e.test_cli import Planrun, folder, planrun, started

__all__ = ["folder", "planrun"]


def close(process: subprocess.Popen[str], stream: str) -> None:
    """Read no more of what it says there."""
    getattr(process, stream).close()
    setattr(process, stream, None)


def test_a_reader_that_has_seen_enough_is_no_error(planrun: Planrun) -> None:
    planrun("submit", "preview", f"x={'y' * 200_000}")
    with started("list", "--json") as process:
        close(process, "stdout")

        assert process.wait(timeout=30) == Exit.READER_GONE
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_a_reader_who_leaves_makes_no_success_of_a_failure(planrun: Planrun) -> None:
    with started("worker", "film_jobs"):
        for stream, end in (("stdout", Exit.READER_GONE), ("stderr", Exit.FAILED)):
            planrun("submit", "preview", "bad=true", "steps=30", "--request-id", stream)
            with started("wait", stream, "--timeout-s", "60") as waiting:
                close(waiting, stream)

                assert waiting.wait(timeout=60) == end


def test_a_job_that_was_taken_in_is_named_although_nobody_answers_afterwards(
    planrun: Planrun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error would make its caller hand in a second one."""
    _, old, _ = planrun("submit", "preview", "--request-id", "r1", "--key", "k")
    planrun("cancel", "r1")
    show = AsyncClient.show

    async def shows_the_old_one(client: AsyncClient, job_id: str) -> JobRow:
        if job_id not in ("r1", old.strip()):
            raise LedgerUnavailable("the ledger gives no answer")
        return await show(client, job_id)

    monkeypatch.setattr(AsyncClient, "show", shows_the_old_one)
    for tokens in (["retry", "r1"], ["submit", "preview"]):
        status, out, _ = planrun(*tokens)

        assert (status, len(out.split())) == (Exit.FINISHED, 1)
