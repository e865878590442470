"""Collecting by hand: what lost attempts left goes, and is named; what counts stays."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from planrun.core.errors import Invalid
from planrun.core.life import Outcome
from planrun.core.messages import Output
from planrun.wiring import scratch_root
from tests.client.stand_in import Hands, open_world

pytestmark = pytest.mark.anyio


async def lost_upload(hands: Hands, job_id: str, file: Path) -> Output:
    """An attempt that put a file into the store, and then failed for good."""
    granted = await hands.take(job_id)
    output = hands._put(granted, "out.mp4", file)
    await hands.settle(granted.lease, Outcome.PERMANENT)
    return output


async def test_what_a_failed_attempt_left_goes_and_an_answer_stays(url: str, tmp_path: Path) -> None:
    file = tmp_path / "out.mp4"
    file.write_bytes(b"film")
    async with open_world(url) as (client, hands):
        lost = await lost_upload(hands, (await client.submit("preview")).id, file)
        good = await client.submit("preview")
        await hands.finish(good.id, files={"film": file})

        kept = await client.collect(grace_s=3600)
        gone = await client.collect(grace_s=0)

        assert (kept, gone) == ([], [lost.key])
        assert (await good.result()).outputs["film"].path.read_bytes() == b"film"
        assert await client.collect(grace_s=0) == []


@pytest.mark.parametrize("chosen", [False, True])
async def test_scratch_of_an_ended_attempt_goes_wherever_the_workers_have_it(
    url: str, tmp_path: Path, chosen: bool
) -> None:
    scratch = tmp_path / "fast" if chosen else None
    async with open_world(url) as (client, hands):
        running = await hands.take((await client.submit("preview")).id)
        ended = await hands.take((await client.submit("preview")).id)
        await hands.settle(ended.lease, Outcome.SUCCESS)
        root = scratch_root(client._place, scratch)
        folders = {lease.token: root / f"{lease.token:x}" for lease in (running.lease, ended.lease)}
        for folder in folders.values():
            folder.mkdir(parents=True)

        gone = await client.collect(grace_s=0, scratch=scratch)

        assert gone == [str(folders[ended.lease.token])]
        assert [folder.exists() for folder in folders.values()] == [True, False]


@pytest.mark.parametrize("grace_s", [-1, math.nan, math.inf])
async def test_a_grace_that_is_no_span_of_time_is_refused(url: str, grace_s: float) -> None:
    async with open_world(url) as (client, _):
        with pytest.raises(Invalid, match="grace"):
            await client.collect(grace_s=grace_s)
