"""The API in this process, over a real ledger and a worker's hands."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from planrun.client import AsyncClient
from planrun.clock import SystemClock
from planrun.core.fleet import Fleet
from planrun.web.app import build_app
from planrun.web.calls import Followers
from planrun.web.guard import FRESH_MS, Guard
from planrun.web.ledger import Served
from planrun.wiring import open_keyring
from tests.client.stand_in import Hands, open_world


@dataclass
class Stage:
    """Attributes:
    http: Speaks to the API.
    hands: Take jobs and end them.
    followers: What the server stops.
    """

    http: httpx2.AsyncClient
    client: AsyncClient
    hands: Hands
    followers: Followers

    async def submit(self, **body: Any) -> str:
        reply = await self.http.post("/v1/jobs", json={"kind": "preview", **body})
        assert reply.is_success, reply.text
        job_id: str = reply.json()["job_id"]
        return job_id

    async def got(self, path: str, **options: Any) -> Any:
        reply = await self.http.get(path, **options)
        assert reply.status_code == 200, reply.text
        return reply.json()


@asynccontextmanager
async def open_stage(
    url: str, *, token: str = "", base: str = "http://localhost", fresh_ms: int = FRESH_MS, is_fleet: bool = False
) -> AsyncIterator[Stage]:
    async with open_world(url) as (client, hands):
        followers = Followers()
        guard = Guard(secret=token, keyring=open_keyring(url), fresh_ms=fresh_ms)
        served = Served.over(hands.ledger, SystemClock.open_system(), Fleet(store="")) if is_fleet else None
        app = build_app(client, guard=guard, followers=followers, served=served)
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url=base) as http:
            yield Stage(http, client, hands, followers)
        await guard.aclose()


def refused(reply: httpx2.Response) -> tuple[int, str]:
    """Status and slug of a problem that is whole."""
    assert reply.headers["content-type"] == "application/problem+json", reply.text
    problem = reply.json()
    assert problem["status"] == reply.status_code
    assert problem["title"] and problem["detail"] and "\n" not in problem["detail"], problem
    return reply.status_code, problem["type"]


def events_of(text: str) -> list[tuple[str, str | None, Any]]:
    """(name, id, data) of each event of a stream."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in fields:
            found.append((fields["event"], fields.get("id"), json.loads(fields["data"])))
    return found
