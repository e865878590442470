"""A heartbeat that a broker carries, and what becomes of it where the broker does not.

What the broker cannot carry, the ledger itself can: a heartbeat that is not confirmed is asked of it directly. So a
worker that is cut off from one of the two keeps its leases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from planrun.core.errors import LedgerUnavailable, TransportUnavailable
from planrun.core.lease import heartbeat_ms
from planrun.core.messages import RenewRequest, Standing
from planrun.ledger.contract import Ledger


async def beat(
    request: RenewRequest, ledger: Ledger, send: Callable[[RenewRequest], Awaitable[bool]]
) -> Sequence[Standing] | None:
    """See `WorkerTransport.beat`.

    Args:
        send: Sends it to the broker. True: it lies in a queue. False: no queue takes it. Raises TransportUnavailable
            where it was not confirmed.
    """
    # A broker that is silent may take half the time to the next heartbeat: the rest is for the ledger.
    silent_s = heartbeat_ms(request.lease_ms) / 2000
    try:
        async with asyncio.timeout(silent_s):
            if await send(request):
                return None
        why = "no queue of the broker takes heartbeats"
    except TimeoutError:
        why = f"the broker did not confirm a heartbeat within {silent_s:g} s"
    except TransportUnavailable as error:
        why = str(error)
    try:
        return await ledger.renew(request)
    except LedgerUnavailable as error:
        raise LedgerUnavailable(f"{error}; and {why}") from None
