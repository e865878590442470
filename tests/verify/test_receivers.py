"""Where the messages of a run arrive."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from planrun.core.routes import Command, check_route
from planrun.verify.receivers import FolderReceiver

pytestmark = pytest.mark.anyio
RESULT = {
    "job_id": "j1",
    "namespace": "n",
    "kind": "k",
    "version": "v1",
    "state": "finished",
    "attempt": 1,
    "ended_at_ms": 0,
}


async def test_each_copy_of_a_message_is_kept_by_itself(tmp_path: Path) -> None:
    receiver = FolderReceiver(tmp_path / "with a blank")
    route = check_route(receiver.route)
    assert isinstance(route, Command)
    body = json.dumps({"msg_id": "m1", "result": RESULT})
    for _ in range(2):
        await asyncio.to_thread(subprocess.run, route.argv, input=body.encode(), check=True)

    copies = await receiver.arrived()

    assert [(copy.msg_id, copy.body, copy.result.job_id) for copy in copies] == [("m1", body, "j1")] * 2


async def test_a_copy_whose_sender_was_killed_half_way_does_not_count(tmp_path: Path) -> None:
    receiver = FolderReceiver(tmp_path / "messages")
    (tmp_path / "messages" / ".Xq3").write_text('{"msg_id": "m1", "res')

    assert await receiver.arrived() == []
