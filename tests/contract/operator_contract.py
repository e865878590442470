"""What an operator sees and does."""

from __future__ import annotations

from planrun.core.coverage import OpenJobs
from planrun.ledger.contract import Ledger

from .actors import KIND, Actors
from .ledger_contract import LedgerContract


class OperatorContract(LedgerContract):
    async def test_open_jobs_are_counted_by_namespace_kind_and_version(self, they: Actors, ledger: Ledger) -> None:
        await they.submit(namespace="ads", version="v2")
        await they.submit()
        await they.submit(delay_s=60)
        await they.running()
        await they.succeed(await they.running())

        assert await ledger.open_jobs() == [
            OpenJobs(namespace="ads", kind=KIND, version="v2", queued=1),
            OpenJobs(namespace="default", kind=KIND, version="v1", queued=2, running=1),
        ]

    async def test_nobody_has_an_outlook_on_a_job_that_is_not_there(self, ledger: Ledger) -> None:
        assert await ledger.outlook("nowhere") is None
