"""What a job prints on another machine lies in the store in pieces while it runs; whole when it has ended."""

from __future__ import annotations

import pytest

from planrun.core.life import Outcome
from planrun.core.messages import SettleRequest
from planrun.core.names import attempt_prefix, live_log_prefix, log_key
from tests.client.stand_in import open_world

pytestmark = pytest.mark.anyio


async def test_a_log_in_pieces_is_read_from_anywhere_and_goes_on_as_the_whole_one(url: str) -> None:
    async with open_world(url) as (client, hands):
        job_id = (await client.submit("preview")).id
        granted = await hands.take(job_id)
        prefix = attempt_prefix("default", job_id, 1, granted.lease.token)

        async def read(after: int) -> tuple[bytes, int]:
            piece = await client.log_piece(job_id, attempt=1, after=after)
            return piece.data, piece.end

        assert await read(0) == (b"", 0)
        for start, text in ((0, b"frame 1\n"), (8, b"frame 2\n"), (16, b"frame 3\n")):
            hands.store.put_if_absent(f"{live_log_prefix(prefix)}{start:09d}", text)
        assert await read(0) == (b"frame 1\nframe 2\nframe 3\n", 24)
        assert await read(8) == (b"frame 2\nframe 3\n", 24)
        assert await read(13) == (b" 2\nframe 3\n"[-11:], 24)
        assert await read(24) == await read(99) == (b"", 24)
        assert await client.logs(job_id) == "frame 1\nframe 2\nframe 3\n"

        hands.store.put_if_absent(log_key(prefix), b"frame 1\nframe 2\nframe 3\nframe 4\n")
        await hands.ledger.settle(SettleRequest(lease=granted.lease, outcome=Outcome.SUCCESS))
        assert await read(24) == (b"frame 4\n", 32)


async def test_of_a_worker_that_was_lost_with_its_log_the_pieces_are_left(url: str) -> None:
    async with open_world(url) as (client, hands):
        job_id = (await client.submit("preview")).id
        prefix = attempt_prefix("default", job_id, 1, (await hands.take(job_id)).lease.token)
        hands.store.put_if_absent(f"{live_log_prefix(prefix)}{0:09d}", b"frame 1\n")
        assert await hands.ledger.bury(hands.incarnation, who="w2") == 1

        assert await client.logs(job_id) == "frame 1\n"
        assert await client.logs(job_id, attempt=1) == "frame 1\n"
