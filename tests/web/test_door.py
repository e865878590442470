"""Who may come in."""

from __future__ import annotations

import asyncio
import socket

import pytest

from planrun.config import secret_from, token_from
from planrun.core.access import token_text
from planrun.core.errors import Invalid
from planrun.web.door import is_own_name
from planrun.web.server import address_of, open_socket
from tests.web.stage import open_stage, refused

pytestmark = pytest.mark.anyio

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize("host", ["localhost", "localhost:8470", "127.0.0.1:9", "[::1]:8470", "10.0.0.7"])
async def test_this_box_may_be_called_by_its_own_names(url: str, host: str) -> None:
    async with open_stage(url) as stage:
        assert (await stage.http.get("/v1/health", headers={"host": host})).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io:8470", "", "a@b[", "[::1"]
)
async def test_a_strangers_name_that_points_here_is_refused(url: str, host: str) -> None:
    """DNS rebinding."""
    assert not is_own_name(host)
    async with open_stage(url) as stage:
        assert refused(await stage.http.get("/v1/jobs", headers={"host": host})) == (403, "foreign-host")


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://evil.example"}, {"origin": "null"}, {"origin": "http://["}, {"sec-fetch-site": "cross-site"}],
)
async def test_a_page_of_another_site_can_do_nothing(url: str, headers: dict[str, str]) -> None:
    async with open_stage(url) as stage:
        job = await stage.submit()
        reply = await stage.http.post(f"/v1/jobs/{job}/cancel", headers=headers)

        assert refused(reply) == (403, "foreign-page")
        assert (await stage.got(f"/v1/jobs/{job}"))["state"] == "queued"
        read = await stage.http.get("/v1/jobs", headers=headers)
        assert not [name for name in read.headers if name.startswith("access-control")]
        assert read.headers["cross-origin-resource-policy"] == "same-site"


async def test_a_page_of_this_server_may_post(url: str) -> None:
    async with open_stage(url) as stage:
        own = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}
        assert (await stage.http.post("/v1/jobs", json={"kind": "preview"}, headers=own)).status_code == 201


async def test_with_a_token_everything_but_health_and_the_description_asks_for_it(url: str) -> None:
    async with open_stage(url, token=TOKEN, base="http://planrun.example") as stage:
        missing = await stage.http.get("/v1/jobs")
        wrong = await stage.http.get("/v1/jobs", headers={"authorization": f"Bearer {TOKEN}x"})
        basic = await stage.http.get("/v1/jobs", headers={"authorization": f"Basic {TOKEN}"})
        odd = await stage.http.get("/v1/jobs", headers={b"authorization": b"Bearer \xff"})
        right = await stage.http.get("/v1/jobs", headers={"authorization": f"bearer {TOKEN}"})

        assert {refused(reply) for reply in (missing, wrong, basic, odd)} == {(401, "no-token")}
        assert missing.headers["www-authenticate"].startswith("Bearer")
        assert right.status_code == 200
        for path in ("/v1/health", "/openapi.json", "/"):
            assert (await stage.http.get(path)).status_code == 200
        assert refused(await stage.http.get("/v1/nowhere")) == (401, "no-token")


@pytest.mark.parametrize("token", ["short", "with space 0123456789", "é" * 20, "a\n" * 20])
def test_a_token_that_could_be_guessed_or_not_be_sent_is_refused(token: str) -> None:
    with pytest.raises(Invalid, match="PLANRUN_TOKEN"):
        token_from({"PLANRUN_TOKEN": token})


def test_an_address_that_others_can_reach_needs_a_token_and_tls() -> None:
    for listen in ("0.0.0.0:0", "[::]:0"):
        with pytest.raises(Invalid, match=r"planrun token create.*PLANRUN_TOKEN"):
            open_socket(listen, is_guarded=False, is_secure=False)
        with pytest.raises(Invalid, match=r"--tls-cert.*--insecure-http"):
            open_socket(listen, is_guarded=True, is_secure=False)
    with open_socket("0.0.0.0:0", is_guarded=True, is_secure=True) as listening:
        assert address_of(listening).startswith("http://0.0.0.0:")


def test_a_port_that_is_taken_is_said_with_what_to_do() -> None:
    with open_socket("127.0.0.1:0", is_guarded=False, is_secure=False) as first:
        port = first.getsockname()[1]
        with pytest.raises(Invalid, match=f"127.0.0.1:{port}: address already in use; .*--listen.*--no-http"):
            open_socket(f"127.0.0.1:{port}", is_guarded=False, is_secure=False)


async def test_a_reply_in_two_writes_is_not_held_back_for_an_acknowledgement() -> None:
    delays = asyncio.Queue[int]()

    async def look(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        delays.put_nowait(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    with open_socket("127.0.0.1:0", is_guarded=False, is_secure=False) as listening:
        async with await asyncio.start_server(look, sock=listening):
            _, writer = await asyncio.open_connection(*listening.getsockname()[:2])
            writer.close()
            await writer.wait_closed()
            assert await asyncio.wait_for(delays.get(), 10)


@pytest.mark.parametrize(
    "listen", ["", "8470", ":8470", "127.0.0.1:x", "127.0.0.1:70000", "no such host:1", "1.2.3.4:0"]
)
def test_what_is_no_address_of_this_box_is_refused(listen: str) -> None:
    with pytest.raises(Invalid, match="--listen"):
        open_socket(listen, is_guarded=True, is_secure=True)


def test_a_caller_s_token_is_no_secret_of_a_server() -> None:
    """It would open everything, and go on doing so once it is revoked."""
    made = token_text("ab" * 40)

    assert secret_from({"PLANRUN_TOKEN": made}) == ""
    assert token_from({"PLANRUN_TOKEN": made}) == made
    assert secret_from({"PLANRUN_TOKEN": "0123456789abcdef"}) == "0123456789abcdef"
