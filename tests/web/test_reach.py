"""What a token reaches of the ledger itself: every verb, with every token that must not reach so far."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from planrun.core.access import Scope
from planrun.core.messages import SubmitRequest, WorkerRow
from planrun.ledger.wire import VERBS
from tests.web.stage import refused
from tests.web.test_tokens import Office, make, open_office

pytestmark = pytest.mark.anyio

UNKNOWN = "11111111-1111-5111-8111-111111111111"
WORKER = {"name": "w", "host": "h", "slots": 1}


@pytest.fixture
async def office(url: str) -> AsyncIterator[Office]:
    async with open_office(url) as office:
        yield office


def arguments(job: str, namespace: str | None, incarnation: str) -> dict[str, dict[str, Any]]:
    """How each verb is asked about one job, one namespace and one worker."""
    lease = {"job_id": job, "attempt": 1, "token": 1}
    grant = {"job_id": job, "attempt": 1, "incarnation": incarnation, "nonce": "n", "lease_ms": 1000}
    operator = {"incarnations": [], "who": "", "why": ""}
    submit = {"request_id": "r", "kind": "x", "content_hash": "h", "request_hash": "h", "namespace": namespace or ""}
    listing = {"namespace": namespace}
    held = {"kind": "", "namespace": namespace or "", "who": "", "why": ""}
    found: dict[str, dict[str, Any]] = {
        "submit": {"requests": [submit]},
        "cancel": {"request": {"namespace": namespace or "", "job_id": job}},
        "job": {"namespace": namespace, "job_id": job},
        "result": {"job_id": job},
        "archived": {"namespace": namespace, "job_id": job},
        "jobs": {"query": listing},
        "attempts": {"job_id": job},
        "events": {"job_id": job},
        "outlook": {"job_id": job},
        "job_ids": {"namespace": namespace, "prefix": job[:8], "limit": 9},
        "counts": {"namespace": namespace},
        "running": {},
        "drains": {"limit": 9},
        "pauses": {"limit": None},
        "ended": {"since_ms": 0},
        "open_jobs": {},
        "workers": {},
        "pause": {"request": held},
        "resume": {"request": held},
        "drain": {"request": operator},
        "undrain": {"request": operator},
        "violations": {},
        "owed": {},
        "rates": {},
        "set_rate": {"kind": "x", "per_s": 1.0},
        "register": {"worker": {**WORKER, "incarnation": incarnation, "namespaces": [namespace or "*"]}},
        "worker": {"incarnation": incarnation},
        "offers": {"query": {"namespaces": [namespace or "*"], "handlers": [], "capabilities": [], "limit": 9}},
        "stopped": {"lease": lease, "who": ""},
        "live_tokens": {"tokens": [1]},
        "bury_own": {"incarnation": incarnation, "secret": "s", "who": ""},
        "settle": {"request": {"lease": lease, "outcome": "success"}},
        "grant": {"request": grant},
        "grant_first": {"requests": [grant]},
        "renew": {"request": {"incarnation": incarnation, "beats": [{"lease": lease}], "lease_ms": 1000}},
        "standing": {"lease": lease, "intent": []},
        "held": {"incarnation": incarnation},
        "checkpoint": {"request": {"lease": lease, "checkpoint": {"attempt": 1, "seq": 1, "format": "f"}}},
        "release": {"request": {"lease": lease, "why": ""}},
        "changed": {"timeout_s": 0, "about": job},
    }
    return found


def bare(text: str, *names: str) -> str:
    for name in names:
        text = text.replace(name, "…").replace(name[:8], "…")
    return text


def test_every_verb_is_asked_here() -> None:
    assert set(arguments("", None, "")) == set(VERBS)


async def test_every_verb_refuses_a_token_of_each_other_scope(office: Office) -> None:
    asked = arguments(office.ads, "ads", office.hands.incarnation)
    for scope in Scope:
        token = await make(office.keyring, [scope])
        for verb in VERBS.values():
            opens = scope in verb.scopes or (scope is Scope.OPERATE and Scope.SUBMIT in verb.scopes)
            if not opens:
                reply = await office.ask(token, "POST", f"/v1/ledger/{verb.name}", asked[verb.name])
                assert refused(reply) == (403, "wrong-scope"), verb.name


@pytest.mark.parametrize("sort", ["garbled", "revoked", "expired"])
async def test_every_verb_refuses_what_is_no_valid_token(office: Office, sort: str) -> None:
    token = await make(office.keyring, list(Scope), lasts_ms=-1 if sort == "expired" else None)
    if sort == "revoked":
        await office.keyring.revoke(token.split("_")[1])
    if sort == "garbled":
        token = token[:-1] + ("0" if token[-1] != "0" else "1")
    for verb in VERBS:
        assert refused(await office.ask(token, "POST", f"/v1/ledger/{verb}", {})) == (401, "no-token"), verb


async def test_a_job_and_a_worker_of_another_namespace_are_unknown_to_every_verb(office: Office) -> None:
    """The running job and the worker of `default` answer a token of `ads` as such that never were."""
    await office.hands.take(office.default)
    token = await make(office.keyring, list(Scope), ["ads"])
    foreign = arguments(office.default, None, office.hands.incarnation)
    nobody = arguments(UNKNOWN, None, "2" * 32)
    about_one = [verb for verb in VERBS if json.dumps(foreign[verb]) != json.dumps(nobody[verb]) and verb != "register"]
    for verb in about_one:
        told = await office.ask(token, "POST", f"/v1/ledger/{verb}", foreign[verb])
        unknown = await office.ask(token, "POST", f"/v1/ledger/{verb}", nobody[verb])
        names = (office.default, UNKNOWN, office.hands.incarnation, "0" * 32)
        if verb != "changed":  # answers with a number of its own each time
            assert (told.status_code, bare(told.text, *names)) == (unknown.status_code, bare(unknown.text, *names)), (
                verb
            )
    row = await office.hands.ledger.job(None, office.default)
    assert row is not None and row.state == "running" and row.lease_until_ms is not None


async def test_no_verb_does_anything_in_a_namespace_that_is_not_the_caller_s(office: Office) -> None:
    token = await make(office.keyring, list(Scope), ["ads"])
    foreign = arguments(office.default, "default", office.hands.incarnation)
    for verb in (
        "submit",
        "jobs",
        "counts",
        "pause",
        "resume",
        "offers",
        "drain",
        "undrain",
        "drains",
        "ended",
        "violations",
        "owed",
        "rates",
        "set_rate",
    ):
        reply = await office.ask(token, "POST", f"/v1/ledger/{verb}", foreign[verb])
        assert refused(reply) == (403, "foreign-namespace"), verb
    for namespace in ("default", "ads"):  # it is the worker of others
        own = arguments(office.ads, namespace, office.hands.incarnation)["register"]
        assert refused(await office.ask(token, "POST", "/v1/ledger/register", own)) == (403, "foreign-namespace")
    for verb, nothing in (("job", None), ("archived", None), ("job_ids", [])):
        assert (await office.ask(token, "POST", f"/v1/ledger/{verb}", foreign[verb])).json() == nothing
    assert refused(await office.ask(token, "POST", "/v1/ledger/cancel", foreign["cancel"])) == (404, "unknown-job")


@pytest.mark.parametrize("namespace", [None, "default"])
async def test_a_request_id_of_another_namespace_leads_nowhere(office: Office, namespace: str | None) -> None:
    """To no verb: neither to one that looks for it everywhere, nor to one that does in the namespace that it names."""
    ledger = office.hands.ledger
    request = SubmitRequest(request_id="order-7", kind="preview", content_hash="h", request_hash="h")
    [made] = await ledger.submit([request])
    token = await make(office.keyring, list(Scope), ["ads"])
    foreign, nobody = (arguments(name, namespace, "2" * 32) for name in ("order-7", "order-8"))
    for verb in (verb for verb in VERBS if foreign[verb] != nobody[verb] and verb != "changed"):
        told = await office.ask(token, "POST", f"/v1/ledger/{verb}", foreign[verb])
        unknown = await office.ask(token, "POST", f"/v1/ledger/{verb}", nobody[verb])
        names = ("order-7", "order-8")
        assert (told.status_code, bare(told.text, *names)) == (unknown.status_code, bare(unknown.text, *names)), verb
    row = await ledger.job(None, made.job_id)
    assert row is not None and row.state == "queued"


async def test_a_job_of_another_namespace_is_not_retried(office: Office) -> None:
    token = await make(office.keyring, [Scope.SUBMIT], ["ads"])
    asked = arguments("", "ads", "")["submit"]
    asked["requests"][0]["retry_of"] = office.default
    reply = await office.ask(token, "POST", "/v1/ledger/submit", asked)
    assert reply.json()[0]["disposition"] == "new"
    assert "retried" not in [row.what for row in await office.hands.ledger.events(office.default)]


async def test_an_outlook_shows_of_the_fleet_what_is_the_caller_s(office: Office) -> None:
    row = WorkerRow(incarnation="3" * 32, name="w3", host="h", slots=1, namespaces=("ads", "third"))
    await office.hands.ledger.register(row)
    token = await make(office.keyring, [Scope.SUBMIT], ["ads"])
    told = (await office.ask(token, "POST", "/v1/ledger/outlook", {"job_id": office.ads})).json()
    assert [(worker["name"], worker["namespaces"]) for worker in told["workers"]] == [("w3", ["ads"])]


async def test_who_works_for_some_namespaces_makes_no_result_of_others_go(office: Office) -> None:
    await office.hands.finish(office.default)
    handler = {"kind": "preview", "version": "v1", "result_ttl_s": 0}
    for namespaces, is_gone in ((["ads"], False), (["*"], True)):
        token = await make(office.keyring, [Scope.WORK], namespaces)
        worker = {**WORKER, "incarnation": "3" * 32, "namespaces": ["ads"], "handlers": [handler]}
        reply = await office.ask(token, "POST", "/v1/ledger/register", {"worker": worker, "may_shorten": True})
        assert reply.status_code == 200, reply.text
        assert (office.default in (await office.hands.ledger.stale(limit=9)).results) is is_gone


async def test_a_call_that_names_no_namespace_is_about_the_token_s_own(office: Office) -> None:
    token = await make(office.keyring, list(Scope), ["ads", "third"])
    asked = arguments(office.ads, None, "3" * 32)

    async def told(verb: str, **other: Any) -> Any:
        reply = await office.ask(token, "POST", f"/v1/ledger/{verb}", {**asked[verb], **other})
        assert reply.status_code == 200, (verb, reply.text)
        return reply.json()

    assert (await told("job"))["job_id"] == office.ads
    assert (await told("job", job_id="same"))["job_id"] == office.ads
    assert await told("job_ids", prefix="") == [office.ads]
    assert [row["job_id"] for row in (await told("jobs"))[0]] == [office.ads]
    assert sum((await told("counts")).values()) == 1
    assert await told("workers") == []
    assert all(row["namespace"] == "ads" for row in await told("open_jobs"))
    await told("register", worker={**WORKER, "incarnation": "3" * 32, "namespaces": ["ads"]})
    assert (await told("worker"))["namespaces"] == ["ads"]
    assert [row["incarnation"] for row in await told("workers")] == ["3" * 32]
