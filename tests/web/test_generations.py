"""Which of two orchestrators is believed, when a copy of their ledger was recovered: every reply and request says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from planrun.client import AsyncClient
from planrun.core.errors import LedgerUnavailable
from planrun.core.fleet import Fleet
from planrun.ledger.wire import GENERATION_HEADER
from planrun.web.guard import Guard
from planrun.web.ledger import Served
from planrun.web.server import address_of, open_socket, server_of
from planrun.wiring import open_ledger
from tests.contract.manual_clock import ManualClock
from tests.orchestrator.standing import Standing, copy_of, standing

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def serving(party: Standing, listen: str = "127.0.0.1:0") -> AsyncIterator[str]:
    """Serve a ledger as its orchestrator does. Yields its address."""
    client = AsyncClient.over(party.ledger, party.store, url="sqlite:///x.db", clock=party.they.clock)
    listening = open_socket(listen, is_guarded=False, is_secure=False)
    served = Served.over(party.ledger, party.they.clock, Fleet(store="/srv"), party.generations)
    server = server_of(client, Guard(), served=served)
    task = asyncio.create_task(server.serve([listening]))
    try:
        yield address_of(listening)
    finally:
        server.should_exit = True
        await task


async def test_every_reply_says_the_generation_refusals_too(tmp_path: Path) -> None:
    async with (
        standing(tmp_path / "a.db", tmp_path / "store", ManualClock()) as party,
        serving(party) as address,
        httpx2.AsyncClient(base_url=address) as http,
    ):
        replies = [await http.get(path) for path in ("/v1/fleet", "/v1/jobs/nobody", "/nowhere")]
        replies.append(await http.post("/v1/ledger/counts", content=b"garbage"))

    assert [reply.headers[GENERATION_HEADER] for reply in replies] == ["1"] * 4


async def test_who_has_met_a_higher_generation_does_not_believe_a_lower_one(tmp_path: Path) -> None:
    clock = ManualClock()
    async with standing(tmp_path / "a.db", tmp_path / "store", clock):
        pass
    copy_of(tmp_path / "a.db", tmp_path / "b.db")
    async with (
        standing(tmp_path / "a.db", tmp_path / "store", clock) as left,
        standing(tmp_path / "b.db", tmp_path / "store", clock, began=False) as right,
    ):
        await right.generations.enter(recover=True)
        async with serving(right) as address:
            remote = open_ledger(address, clock=clock)
            assert (await remote.counts(None))["queued"] == 0
        await left.they.submit()

        async with serving(left, address.removeprefix("http://").rstrip("/")):
            with pytest.raises(LedgerUnavailable, match="is of generation 1, and generation 2 has taken over"):
                await remote.counts(None)
        await remote.close()
        assert "has taken over from generation 1" in left.generations.replaced  # it has heard of it from the question


async def test_a_number_that_nobody_took_ends_nothing(tmp_path: Path) -> None:
    """A header is no proof: the store is."""
    async with standing(tmp_path / "a.db", tmp_path / "store", ManualClock()) as party, serving(party) as address:
        async with httpx2.AsyncClient(base_url=address) as http:
            for said in ("7", "9" * 30, "-1", "x"):
                reply = await http.post(
                    "/v1/ledger/counts", json={"namespace": None}, headers={GENERATION_HEADER: said}
                )
                assert reply.status_code == 200
        assert party.generations.replaced == ""
