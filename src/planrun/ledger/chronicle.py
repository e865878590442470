"""A second port of the ledger, for the one process that owns it: its generations, and answers before they are said.

Source of the rules: docs/concepts/generations.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from planrun.core.generations import History
from planrun.core.manifests import Closing, Manifest


class Chronicle(Protocol):
    """Raises as `Ledger` does."""

    async def history(self) -> History:
        """What the ledger knows of itself."""
        ...

    async def be_strict(self) -> None:
        """From here on no answer is said before its manifest is adopted. For ever, in all copies."""
        ...

    async def take_generation(self, generation: int, owner: str, *, seal_key: str, recovering: bool) -> None:
        """Be of that generation, which was taken in the store under this id. A lower one than ours changes nothing.

        Args:
            seal_key: For the seals of what it gives out. Only the ledger has it.
            recovering: A recovery begins: nothing is garbage until it ends.
        """
        ...

    async def end_recovery(self) -> None:
        """The manifests of the store are adopted: the ledger is whole again.

        Of the finished jobs with one key the newest has it now, unless an open one has.
        """
        ...

    async def closing(self, *, limit: int, after: int = 0) -> Closing:
        """Jobs that have ended and whose answer has not been said, the oldest first.

        Args:
            after: Only those behind the `last` of another look.
        """
        ...

    async def adopt(self, manifests: Sequence[Manifest]) -> int:
        """These stand in the store: they are the answers of their jobs, whatever the ledger had, and may be said.

        A job that is open here ends, one that is not known here is written down, unless its id would have been
        forgotten by now. A second call changes nothing.

        Returns:
            Of how many jobs it is the answer from here on.
        """
        ...

    async def unadopted(self, job_ids: Sequence[str]) -> list[str]:
        """Those of the jobs whose manifest, if there is one, the ledger has not adopted."""
        ...
