"""What a token opens, and what it does not: every route, with every token that must not open it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from planrun.cli.app import run
from planrun.clock import SystemClock
from planrun.core.access import AccessToken, Scope, digest_of, token_text
from planrun.ledger.keyring import Keyring
from planrun.web.app import EVERY_ROUTE
from planrun.web.guard import FRESH_MS
from planrun.web.routes import Route
from planrun.wiring import open_keyring
from tests.client.stand_in import Hands
from tests.web.stage import open_stage, refused

pytestmark = pytest.mark.anyio

CLOCK = SystemClock.open_system()
GUARDED = [route for route in EVERY_ROUTE if route.scope is not None]
# What a route needs to be asked at all.
BODIES: dict[str, Any] = {"/v1/jobs": {"kind": "preview"}, "/v1/bulk": {"jobs": [{"kind": "preview"}]}}


async def make(
    keyring: Keyring, scopes: Sequence[Scope], namespaces: Sequence[str] = ("*",), *, lasts_ms: int | None = None
) -> str:
    text = token_text(CLOCK.new_id() * 3)
    made = AccessToken(
        token_id=text.split("_")[1],
        digest=digest_of(text),
        scopes=tuple(scopes),
        namespaces=tuple(namespaces),
        expires_at_ms=None if lasts_ms is None else CLOCK.now().wall_ms + lasts_ms,
    )
    await keyring.create(made)
    return text


@dataclass
class Office:
    """An API with tokens.

    Attributes:
        ads, default: A job of each namespace.
    """

    http: httpx2.AsyncClient
    keyring: Keyring
    hands: Hands
    ads: str
    default: str

    async def ask(self, token: str, method: str, path: str, body: Any = None) -> httpx2.Response:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return await self.http.request(method, path, json=body, headers=headers)

    async def ask_route(self, token: str, route: Route, job: str = "nowhere") -> httpx2.Response:
        path = route.path.format(job=job, output="preview", verb="pauses")
        body = BODIES.get(route.path, {}) if "body" in route.takes else None
        return await self.ask(token, route.method, path, body)


@pytest.fixture
async def office(url: str) -> AsyncIterator[Office]:
    async with open_office(url) as office:
        yield office


@asynccontextmanager
async def open_office(url: str, *, fresh_ms: int = 0) -> AsyncIterator[Office]:
    async with open_stage(url, base="http://planrun.example", fresh_ms=fresh_ms, is_fleet=True) as stage:
        keyring = open_keyring(url)
        ads = await stage.client.submit("preview", namespace="ads", request_id="same", key="k")
        default = await stage.client.submit("preview", request_id="same", key="k")
        yield Office(stage.http, keyring, stage.hands, ads.id, default.id)
        await keyring.close()


async def test_every_route_refuses_a_token_of_each_other_scope(office: Office) -> None:
    for scope in Scope:
        token = await make(office.keyring, [scope])
        for route in GUARDED:
            opens = scope is route.scope or (scope is Scope.OPERATE and route.scope is Scope.SUBMIT)
            opens = opens or route.path in ("/v1/me", "/v1/lab")  # what a token is for; and what tells of nobody
            if not opens:
                reply = await office.ask_route(token, route, office.default)
                assert refused(reply) == (403, "wrong-scope"), route.path
                assert f"--scope {route.scope}" in reply.json()["detail"]


@pytest.mark.parametrize("sort", ["none", "garbled", "unknown", "cut", "revoked", "expired", "basic"])
async def test_every_route_refuses_what_is_no_valid_token(office: Office, sort: str) -> None:
    token = await make(office.keyring, list(Scope), lasts_ms=-1 if sort == "expired" else None)
    match sort:
        case "none":
            token = ""
        case "garbled":
            token = token[:-1] + ("0" if token[-1] != "0" else "1")
        case "unknown":
            token = token_text(CLOCK.new_id() * 3)
        case "cut":
            token = token[:20]
        case "revoked":
            await office.keyring.revoke(token.split("_")[1])
    for route in GUARDED:
        if sort == "basic":
            path = route.path.format(job=office.default, output="preview", verb="pauses")
            reply = await office.http.request(route.method, path, headers={"authorization": f"Basic {token}"})
        else:
            reply = await office.ask_route(token, route, office.default)
        assert refused(reply) == (401, "no-token"), route.path
        assert reply.headers["www-authenticate"].startswith("Bearer")
        if sort in ("revoked", "expired"):
            assert sort in reply.json()["detail"] and "planrun token create" in reply.json()["detail"]


async def test_a_job_of_another_namespace_is_as_unknown_as_one_that_never_was(office: Office) -> None:
    token = await make(office.keyring, list(Scope), ["ads"])
    routes = [route for route in GUARDED if "{job}" in route.path]
    for route in routes:
        foreign = await office.ask_route(token, route, office.default)
        nobody = await office.ask_route(token, route, "0" * 8 + office.default[8:])

        assert refused(foreign) == (404, "unknown-job"), route.path
        assert foreign.json()["detail"].replace(office.default, "") == nobody.json()["detail"].replace(
            "0" * 8 + office.default[8:], ""
        )
        for ask in (office.default[:8], f"{office.default}?namespace=default", f"{office.ads}?namespace=default"):
            path = route.path.format(job=ask.partition("?")[0], output="preview")
            query = f"?{ask.partition('?')[2]}" if "?" in ask else ""
            assert refused(
                await office.ask(token, route.method, path + query, {} if "body" in route.takes else None)
            ) == (
                404,
                "unknown-job",
            )
    assert (await office.ask(token, "GET", f"/v1/jobs/{office.ads}")).status_code == 200
    assert (await office.ask(token, "GET", f"/v1/jobs/{office.ads[:8]}")).status_code == 200


async def test_a_request_id_that_two_namespaces_have_means_the_caller_s_own(office: Office) -> None:
    for namespace, own in (("ads", office.ads), ("default", office.default)):
        token = await make(office.keyring, [Scope.SUBMIT], [namespace])
        assert (await office.ask(token, "GET", "/v1/jobs/same")).json()["job_id"] == own


async def test_lists_and_counts_without_a_namespace_show_only_the_caller_s_own(office: Office) -> None:
    await office.ask(
        await make(office.keyring, [Scope.SUBMIT]), "POST", "/v1/jobs", {"kind": "x", "namespace": "third"}
    )
    one = await make(office.keyring, [Scope.OPERATE], ["ads"])
    two = await make(office.keyring, [Scope.OPERATE], ["ads", "default"])

    def listed(reply: httpx2.Response) -> list[str]:
        return [job["job_id"] for job in reply.json()["jobs"]]

    assert listed(await office.ask(one, "GET", "/v1/jobs")) == [office.ads]
    assert listed(await office.ask(two, "GET", "/v1/jobs")) == [office.default, office.ads]
    assert listed(await office.ask(two, "GET", "/v1/jobs?key=k&limit=1")) == [office.default]
    assert refused(await office.ask(one, "GET", "/v1/jobs?namespace=default")) == (403, "foreign-namespace")
    assert counted(await office.ask(one, "GET", "/v1/counts")) == 1
    assert counted(await office.ask(two, "GET", "/v1/counts")) == 2
    assert refused(await office.ask(one, "GET", "/v1/counts?namespace=third")) == (403, "foreign-namespace")
    kinds = (await office.ask(one, "GET", "/v1/kinds")).json()["kinds"]
    assert {row["namespace"] for row in kinds} <= {"ads"}
    assert (await office.ask(one, "GET", "/v1/workers")).json()["workers"] == []
    assert len((await office.ask(two, "GET", "/v1/workers")).json()["workers"]) == 1


async def test_nothing_is_done_in_a_namespace_that_is_not_the_caller_s(office: Office) -> None:
    token = await make(office.keyring, list(Scope), ["ads"])
    mine, foreign = {"kind": "preview", "namespace": "ads"}, {"kind": "preview", "namespace": "default"}
    for path, body in [
        ("/v1/jobs", foreign),
        ("/v1/bulk", {"jobs": [mine, foreign]}),
        ("/v1/pauses", {"namespace": "default"}),
        ("/v1/pauses", {"kind": "preview"}),
        ("/v1/pauses/resume", {}),
        ("/v1/drains", {"force": True}),
        ("/v1/drains/undo", {}),
    ]:
        assert refused(await office.ask(token, "POST", path, body)) == (403, "foreign-namespace"), path
    assert refused(await office.ask(token, "GET", "/v1/drains")) == (403, "foreign-namespace")
    everybody = await make(office.keyring, [Scope.OPERATE])
    assert counted(await office.ask(everybody, "GET", "/v1/counts")) == 2
    assert (await office.ask(token, "POST", "/v1/jobs", mine)).status_code == 201
    assert (await office.ask(token, "POST", "/v1/pauses", {"namespace": "ads"})).status_code == 200
    await office.ask(everybody, "POST", "/v1/pauses", {"namespace": "default"})
    assert [row["namespace"] for row in (await office.ask(token, "GET", "/v1/pauses")).json()["pauses"]] == ["ads"]


async def test_a_revoked_token_opens_nothing_after_a_second_and_no_call_reopens_the_door(url: str) -> None:
    async with open_office(url, fresh_ms=FRESH_MS) as office:
        token = await make(office.keyring, [Scope.SUBMIT])
        await wait_until(lambda: is_open(office, token), timeout_s=0.5)
        await office.keyring.revoke(token.split("_")[1])

        await wait_until(lambda: is_shut(office, token), timeout_s=1)

        assert refused(await office.ask("", "GET", "/v1/jobs")) == (401, "no-token")


async def test_when_a_token_was_last_used_is_written_down(office: Office) -> None:
    token = await make(office.keyring, [Scope.SUBMIT])
    assert await is_open(office, token)

    async def is_written() -> bool:
        return all(row.seen_at_ms is not None for row in await office.keyring.access_tokens())

    await wait_until(is_written, timeout_s=5)


def counted(reply: httpx2.Response) -> int:
    return sum(reply.json()["counts"].values())


async def is_open(office: Office, token: str) -> bool:
    return (await office.ask(token, "GET", "/v1/jobs")).status_code == 200


async def is_shut(office: Office, token: str) -> bool:
    return not await is_open(office, token)


async def wait_until(true: Callable[[], Awaitable[bool]], *, timeout_s: float) -> None:
    async with asyncio.timeout(timeout_s):
        while not await true():  # noqa: ASYNC110 - the API is asked
            await asyncio.sleep(0.02)


async def test_the_secret_of_the_environment_opens_everything_beside_them(url: str) -> None:
    secret = "0123456789abcdef"
    async with open_stage(url, token=secret) as stage:
        keyring = open_keyring(url)
        token = await make(keyring, [Scope.SUBMIT], ["ads"])
        await keyring.close()
        for text, status in ((secret, 200), (token, 403)):
            reply = await stage.http.get("/v1/drains", headers={"authorization": f"Bearer {text}"})
            assert reply.status_code == status


def test_a_token_is_shown_once_and_listed_without_it(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    made = [
        "token",
        "create",
        "--scope",
        "work",
        "--scope",
        "work",
        "--namespace",
        "*",
        "--name",
        "box 7",
        "--url",
        url,
    ]
    assert run([*made, "--expires", "90d"]) == 0
    text = capsys.readouterr().out.strip()
    token_id = text.split("_")[1]

    assert run(["token", "list", "--url", url]) == 0
    listed = capsys.readouterr().out
    assert token_id in listed and "box 7" in listed and text.split("_")[2] not in listed
    assert run(["token", "list", "--url", url, "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert "digest" not in row and row["scopes"] == ["work"]
    assert abs(row["expires_at_ms"] - row["created_at_ms"] - 90 * 86_400_000) < 10_000
    for said in ("is revoked", "was revoked already"):
        assert run(["token", "revoke", token_id, "--url", url]) == 0
        assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("tokens", "says"),
    [
        (["create"], "--scope submit"),
        (["create", "--scope", "root"], "root"),
        (["create", "--scope", "work", "--namespace", "a b"], "namespace 'a b'"),
        (["create", "--scope", "work", "--expires", "soon"], "12h or 90d"),
        (["create", "--scope", "work", "--expires", "0d"], "12h or 90d"),
        (["create", "0123", "--scope", "work"], "only revoke"),
        (["revoke"], "planrun token list"),
        (["revoke", "01234567"], "planrun token list"),
    ],
)
def test_a_token_that_cannot_be_right_is_not_made(
    url: str, tokens: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["token", "create", "--scope", "submit", "--url", url]) == 0
    capsys.readouterr()

    assert run(["token", *tokens, "--url", url]) == 2
    told = capsys.readouterr()
    assert says in told.err and told.out == ""


async def test_whoever_has_a_token_is_told_what_it_is_for(office: Office) -> None:
    token = await make(office.keyring, [Scope.WORK, Scope.SUBMIT], ["ads", "media"])
    route = next(route for route in GUARDED if route.path == "/v1/me")
    said = (await office.ask_route(token, route, office.default)).json()

    assert said["scopes"] == ["submit", "work"]
    assert said["namespaces"] == ["ads", "media"]
    assert abs(said["wall_ms"] - CLOCK.now().wall_ms) < 60_000
