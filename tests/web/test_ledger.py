"""The route of the ledger's verbs: what it takes, what it refuses, and that nothing is lost by either."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import msgspec
import pytest

from planrun.clock import SystemClock
from planrun.core.fleet import Fleet
from planrun.ledger.wire import PROTOCOL_HEADER, VERBS
from planrun.web.app import build_app
from planrun.web.ledger import Served
from tests.client.stand_in import open_world
from tests.web.stage import open_stage, refused

pytestmark = pytest.mark.anyio

FLEET = Fleet(store="/srv/store")
SUBMIT = {"requests": [{"request_id": "r1", "kind": "preview", "content_hash": "c", "request_hash": "r"}]}


@pytest.fixture
async def http(url: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with open_world(url) as (client, hands):
        app = build_app(client, served=Served.over(hands.ledger, SystemClock.open_system(), FLEET))
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            yield http


async def test_fields_that_are_not_known_here_are_left_alone(http: httpx2.AsyncClient) -> None:
    newer = {"requests": [{**SUBMIT["requests"][0], "colour": "blue"}], "trace": 1}

    reply = await http.post("/v1/ledger/submit", json=newer)

    assert reply.status_code == 200
    assert reply.json()[0]["disposition"] == "new"


@pytest.mark.parametrize(
    ("verb", "body", "problem"),
    [
        ("expire", b"{}", (404, "no-such-verb")),
        ("nonsense", b"{}", (404, "no-such-verb")),
        ("submit", b"{", (400, "bad-json")),
        ("submit", b"", (422, "invalid")),
        ("submit", b'{"requests": 7}', (422, "invalid")),
        ("submit", b"[" * 100_000, (422, "invalid")),
        ("submit", b'{"requests": [{"kind": "preview"}]}', (422, "invalid")),
    ],
)
async def test_what_is_no_call_is_refused_and_nothing_is_done(
    http: httpx2.AsyncClient, verb: str, body: bytes, problem: tuple[int, str]
) -> None:
    reply = await http.post(f"/v1/ledger/{verb}", content=body, headers={"content-type": "application/json"})

    assert refused(reply) == problem
    assert (await http.post("/v1/ledger/counts", json={"namespace": None})).json()["queued"] == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "a b"},
        {"version": ""},
        {"namespace": "../x"},
        {"inputs": {"a/b": "/x"}},
        {"inputs": {"upload": "https://"}},
        {"needs": ["no such"]},
        {"key": ""},
        {"request_id": "r" * 513},
        {"who": "a\0b"},
        {"priority": 2**40},
        {"priority": 2**70},
        {"max_attempts": 0},
        {"delay_s": -1},
        {"params": {"x": "a" * 300_000}},
        {"subscribers": [""]},
        {"subscribers": ["webhook:file:///etc/passwd"]},
    ],
)
async def test_a_submit_that_no_client_would_send_is_refused(http: httpx2.AsyncClient, wrong: dict[str, Any]) -> None:
    """Whoever speaks HTTP need not have asked a client to check the call."""
    reply = await http.post("/v1/ledger/submit", json={"requests": [SUBMIT["requests"][0] | wrong]})

    assert refused(reply) == (422, "invalid")
    assert (await http.get("/v1/jobs")).json()["jobs"] == []


async def test_numbers_that_no_ledger_can_hold_and_empty_questions_are_refused(http: httpx2.AsyncClient) -> None:
    lease = {"job_id": "j", "attempt": 2**80, "token": 1}

    assert refused(await http.post("/v1/ledger/standing", json={"lease": lease, "intent": []})) == (422, "invalid")
    assert refused(await http.post("/v1/ledger/grant_first", json={"requests": []})) == (422, "invalid")
    worker = {"incarnation": "w1", "name": "w1", "host": "h", "slots": 1, "state": "tired"}
    assert refused(await http.post("/v1/ledger/register", json={"worker": worker})) == (422, "invalid")


async def test_one_call_takes_no_more_jobs_than_a_client_would_send(http: httpx2.AsyncClient) -> None:
    """All of them are one transaction, and every renewal waits for it."""
    many = [SUBMIT["requests"][0] | {"request_id": f"r{n}"} for n in range(101)]

    assert refused(await http.post("/v1/ledger/submit", json={"requests": many})) == (422, "invalid")
    assert (await http.get("/v1/jobs")).json()["jobs"] == []
    assert len((await http.post("/v1/ledger/submit", json={"requests": many[1:]})).json()) == 100


async def test_a_body_without_an_end_is_too_large(http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planrun.web.ledger.BODY_BYTES_MAX", 1_000)

    reply = await http.post("/v1/ledger/submit", json={"requests": [], "padding": "x" * 2_000})

    assert refused(reply) == (413, "too-large")


async def test_a_mistake_of_ours_is_said_as_by_an_orchestrator(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else whoever asks would take it for a proxy's."""
    async with open_world(url) as (client, hands):
        app = build_app(client, served=Served.over(hands.ledger, SystemClock.open_system(), FLEET))
        monkeypatch.setattr(hands.ledger, "counts", None)
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            reply = await http.post("/v1/ledger/counts", json={"namespace": None})

    assert refused(reply) == (500, "bug")
    assert reply.headers[PROTOCOL_HEADER] == "1"


@pytest.mark.parametrize(("number", "who"), [("2", "the orchestrator"), ("0", "whoever asks"), ("x", "whoever asks")])
async def test_who_speaks_another_protocol_hears_which_end_to_upgrade(
    http: httpx2.AsyncClient, number: str, who: str
) -> None:
    reply = await http.post("/v1/ledger/submit", json=SUBMIT, headers={PROTOCOL_HEADER: number})

    assert refused(reply) == (426, "other-protocol")
    assert f"upgrade {who} first" in reply.json()["detail"]


async def test_a_machine_hears_what_it_needs_to_join(http: httpx2.AsyncClient) -> None:
    assert msgspec.json.decode((await http.get("/v1/fleet")).content, type=Fleet) == FLEET


async def test_a_server_without_a_fleet_serves_no_verb(url: str) -> None:
    async with open_stage(url) as stage:
        assert refused(await stage.http.post("/v1/ledger/submit", json=SUBMIT)) == (404, "no-fleet")
        assert refused(await stage.http.get("/v1/fleet")) == (404, "no-fleet")


def test_every_verb_says_which_token_it_takes() -> None:
    assert all(verb.scopes for verb in VERBS.values())
