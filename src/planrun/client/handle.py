"""One job, held by an application with an event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planrun.client.answer import Answer
from planrun.client.waiting import PROGRESS_EVERY_S, Progress
from planrun.core.messages import AttemptRow, CancelReply, EventRow, JobRow
from planrun.core.why import Why

if TYPE_CHECKING:
    from planrun.client.async_client import AsyncClient


@dataclass(frozen=True, slots=True)
class AsyncJobHandle:
    """One job, held by the application.

    Attributes:
        id: The job's id: all that a caller has to keep.
        disposition: What the submit did: `new`, `repeated` (same request), `joined` (same key, still open), `answered`
            (stored result); `known` if it was only looked up.
    """

    client: AsyncClient
    id: str
    disposition: str

    async def wait(self, *, timeout_s: float | None = None) -> Answer:
        """See `AsyncClient.wait`."""
        return await self.client.wait(self.id, timeout_s=timeout_s)

    def stream(self, *, timeout_s: float | None = None, every_s: float = PROGRESS_EVERY_S) -> AsyncIterator[Progress]:
        """See `AsyncClient.stream`."""
        return self.client.stream(self.id, timeout_s=timeout_s, every_s=every_s)

    async def result(self) -> Answer:
        """See `AsyncClient.result`."""
        return await self.client.result(self.id)

    async def cancel(self, *, why: str = "", who: str = "") -> CancelReply:
        """See `AsyncClient.cancel`."""
        return await self.client.cancel(self.id, why=why, who=who)

    async def retry(self, *, why: str = "", who: str = "") -> AsyncJobHandle:
        """See `AsyncClient.retry`."""
        return await self.client.retry(self.id, why=why, who=who)

    async def why(self) -> Why:
        """See `AsyncClient.why`."""
        return await self.client.why(self.id)

    async def show(self) -> JobRow:
        """See `AsyncClient.show`."""
        return await self.client.show(self.id)

    async def events(self) -> Sequence[EventRow]:
        """See `AsyncClient.events`."""
        return await self.client.events(self.id)

    async def attempts(self) -> Sequence[AttemptRow]:
        """See `AsyncClient.attempts`."""
        return await self.client.attempts(self.id)

    async def logs(self, *, attempt: int | None = None) -> str:
        """See `AsyncClient.logs`."""
        return await self.client.logs(self.id, attempt=attempt)
