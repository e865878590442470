"""Inputs on their way to a job: what is fetched, what is refused, and that nothing is asked that must not be."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

import pytest

from planrun.complaints import Complaints
from planrun.core.errors import Permanent, StorageError, Transient
from planrun.core.inputs import rules_from
from planrun.core.lease import HeldLease
from planrun.core.messages import Lease
from planrun.storage.contract import Store
from planrun.storage.filesystem import FilesystemStore
from planrun.worker import inputs as fetching
from planrun.worker.folder import AttemptFolder
from planrun.worker.inputs import Inputs
from planrun.worker.keeper import Holding
from planrun.worker.orders import Orders
from planrun.worker.store_wait import Drained, StoreWait
from tests.contract.manual_clock import ManualClock

pytestmark = pytest.mark.anyio

FILM = bytes(range(256)) * 20_000


@dataclass
class Site:
    """A web server on loopback. Attributes: asked: Paths, in order."""

    port: int
    asked: list[str] = field(default_factory=list)

    def url(self, path: str, *, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"


@contextmanager
def open_site() -> Iterator[Site]:
    release = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            own.asked.append(self.path)
            route, _, rest = self.path.partition("?")[0][1:].partition("/")
            match route:
                case "status":
                    self.send_response(int(rest))
                    self.end_headers()
                case "to":
                    self.send_response(302)
                    self.send_header("location", unquote(rest) if "://" in rest else f"/{rest}")
                    self.end_headers()
                case "cut" | "hang":
                    self.send_response(200)
                    self.send_header("content-length", str(len(FILM)))
                    self.end_headers()
                    self.wfile.write(FILM[:1000])
                    self.wfile.flush()
                    if route == "hang":
                        release.wait(30)
                case "endless":
                    self.send_response(200)
                    self.end_headers()
                    self.wfile.write(FILM)
                case _:
                    self.send_response(200)
                    self.send_header("content-length", str(len(FILM)))
                    self.end_headers()
                    self.wfile.write(FILM)

        def log_message(self, *arguments: Any) -> None: ...

        def handle(self) -> None:
            with suppress(OSError):  # the caller has left
                super().handle()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    own = Site(int(server.server_address[1]))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield own
    finally:
        release.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def site() -> Iterator[Site]:
    with open_site() as site:
        yield site


@pytest.fixture
def holding() -> Holding:
    lease = Lease(job_id="j", attempt=1, token=33)
    return Holding(lease, HeldLease(job_id="j", attempt=1, token=33, lease_ms=60_000, trusted_until_ms=2**62))


@pytest.fixture
def folder(tmp_path: Path) -> AttemptFolder:
    folder = AttemptFolder(tmp_path / "scratch", 33)
    folder.create()
    return folder


@dataclass
class Worker:
    """Brings one input."""

    folder: AttemptFolder
    holding: Holding
    store: Store
    orders: Orders = field(default_factory=Orders)

    async def bring(self, uri: str, *allowed: str, is_fleet: bool = True, limit_s: float = 60, **limits: int) -> Path:
        inputs = Inputs(
            rules_from(allowed, store="s3://results", is_fleet=is_fleet),
            self.store,
            bytes_max=limits.get("bytes_max", 10**9),
            disk_free_bytes_min=limits.get("disk_free_bytes_min", 0),
        )
        clock = ManualClock()
        complaints = Complaints(logging.getLogger("test"), clock)
        store_wait = StoreWait("job j", self.holding, self.orders, clock, complaints, 0)
        given = {"video": uri}
        return (await inputs.bring(given, "default", self.folder, store_wait, limit_s=limit_s))["video"]

    async def refusal(self, uri: str, *allowed: str, **limits: Any) -> Permanent:
        with pytest.raises(Permanent) as caught:
            await self.bring(uri, *allowed, **limits)
        return caught.value


@pytest.fixture
def worker(tmp_path: Path, folder: AttemptFolder, holding: Holding) -> Worker:
    return Worker(folder, holding, FilesystemStore(tmp_path / "store"))


async def test_an_input_of_an_address_is_a_local_file_that_the_job_cannot_change(worker: Worker, site: Site) -> None:
    path = await worker.bring(site.url("/holiday.MOV?signature=x"), "http://127.0.0.1")

    assert path.read_bytes() == FILM
    assert path == worker.folder.inputs / "video" / "input.mov"
    assert path.stat().st_mode & 0o777 == 0o444
    assert worker.holding.message is not None and "fetching input video" in worker.holding.message


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "2130706433",  # decimal
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "0.0.0.0",
    ],
)
async def test_no_spelling_of_this_box_is_asked(worker: Worker, site: Site, host: str) -> None:
    refusal = await worker.refusal(site.url("/x", host=host), "http://*")

    assert refusal.code == "input-forbidden"
    assert site.asked == []


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "2852039166",
        "0xa9fea9fe",
        "[fe80::1]",
        "10.0.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "[fd00:ec2::254]",
    ],
)
async def test_no_metadata_service_and_nothing_private_is_asked(worker: Worker, host: str) -> None:
    """No connection is opened: it would take until its timeout, or be refused with other words."""
    refusal = await worker.refusal(f"http://{host}/latest/meta-data/", "http://*")

    assert refusal.code == "input-forbidden"
    assert "--allow-input" in str(refusal)


async def test_a_name_that_resolves_to_this_box_is_not_asked(
    worker: Worker, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However public the name looks, and if it resolves to a public address as well, that one is connected to."""
    answers: list[list[str]] = [["127.0.0.1"], ["127.0.0.1", "::1"]]
    real = asyncio.get_running_loop().getaddrinfo

    async def resolve(host: Any, port: Any, **options: Any) -> Any:
        if host != "media.example.org":
            return await real(host, port, **options)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in answers.pop(0)]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    for _ in range(2):
        refusal = await worker.refusal(site.url("/x", host="media.example.org"), "http://*")
        assert refusal.code == "input-forbidden"
        worker.folder.create()
    assert (site.asked, answers) == ([], [])


async def test_a_redirect_is_judged_like_a_request(worker: Worker, site: Site) -> None:
    assert (await worker.bring(site.url("/to/x.mov"), "http://127.0.0.1")).read_bytes() == FILM
    with open_site() as inside:
        for target in (inside.url("/x", host="localhost"), "http://169.254.169.254/x", "file:///etc/passwd"):
            worker.folder.create()
            refusal = await worker.refusal(site.url(f"/to/{target}"), "http://127.0.0.1")
            assert refusal.code == "input-forbidden", target
        assert inside.asked == []


async def test_a_redirect_to_what_is_no_address_fails_the_job_once(worker: Worker, site: Site) -> None:
    refusal = await worker.refusal(site.url("/to/http://["), "http://127.0.0.1")

    assert (refusal.code, "is no address" in str(refusal)) == ("input-refused", True)


async def test_redirects_without_an_end_end(worker: Worker, site: Site) -> None:
    path = "/to" * 8 + "/x"
    assert (await worker.refusal(site.url(path), "http://127.0.0.1")).code == "input-refused"
    assert len(site.asked) == fetching.REDIRECTS_MAX + 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
async def test_a_no_fails_the_job_once(worker: Worker, site: Site, status: int) -> None:
    refusal = await worker.refusal(site.url(f"/status/{status}?signature=secret"), "http://127.0.0.1")

    assert (refusal.code, str(status) in str(refusal), "secret" in str(refusal)) == ("input-refused", True, False)


@pytest.mark.parametrize("path", ["/status/408", "/status/429", "/status/500", "/status/503", "/cut/x"])
async def test_a_bad_moment_is_tried_again(worker: Worker, site: Site, path: str) -> None:
    with pytest.raises(Transient) as caught:
        await worker.bring(site.url(path), "http://127.0.0.1")
    assert caught.value.code == "input-unreachable"


async def test_nobody_there_is_a_bad_moment(worker: Worker) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(Transient):
            await worker.bring(f"http://127.0.0.1:{free.getsockname()[1]}/x", "http://127.0.0.1")


async def test_what_comes_too_slowly_is_given_up(worker: Worker, site: Site) -> None:
    with pytest.raises(Transient, match=r"was not there after 0\.2 s"):
        async with asyncio.timeout(10):
            await worker.bring(site.url("/hang"), "http://127.0.0.1", limit_s=0.2)


class OwnStore:
    """It holds one result.

    Attributes:
        errors: What it says before it gives it.
    """

    def __init__(self, *errors: StorageError) -> None:
        self.errors = list(errors)

    def head(self, key: str) -> int:
        return len(FILM)

    def get(self, key: str, target: Path, *, sha256: str, before_chunk: Any) -> None:
        if self.errors:
            raise self.errors.pop(0)
        target.write_bytes(FILM)


RESULT = f"s3://results/default/jobs/j/1-1/{'0' * 64}/film.mov"
AWAY = StorageError("bucket results: no connection", is_away=True)


async def test_a_result_is_waited_for_while_the_own_store_is_away(worker: Worker) -> None:
    worker.store = cast("Store", OwnStore(*[AWAY] * 5))

    assert (await worker.bring(RESULT, limit_s=0.01)).read_bytes() == FILM
    assert worker.holding.message == "waiting for the store: bucket results: no connection"


async def test_a_worker_that_ends_waits_for_no_store(worker: Worker) -> None:
    worker.store = cast("Store", OwnStore(*[AWAY] * 5))
    worker.orders.give(hand_back_ms=0)

    with pytest.raises(Drained):
        await worker.bring(RESULT)


async def test_what_the_own_store_refuses_is_a_bad_moment(worker: Worker) -> None:
    worker.store = cast("Store", OwnStore(StorageError("no such bucket")))

    with pytest.raises(Transient, match="no such bucket") as caught:
        await worker.bring(RESULT)
    assert caught.value.code == "input-unreachable"


@pytest.mark.parametrize("path", ["/x", "/endless"])
async def test_more_than_may_be_fetched_is_refused(worker: Worker, site: Site, path: str) -> None:
    refusal = await worker.refusal(site.url(path), "http://127.0.0.1", bytes_max=len(FILM) - 1)

    assert refusal.code == "input-too-large"
    assert sum(file.stat().st_size for file in worker.folder.inputs.rglob("*") if file.is_file()) < len(FILM)


async def test_the_room_that_is_to_stay_free_stays_free(worker: Worker, site: Site) -> None:
    with pytest.raises(Transient) as caught:
        await worker.bring(site.url("/x"), "http://127.0.0.1", disk_free_bytes_min=2**62)
    assert caught.value.code == "input-disk"


async def test_in_a_fleet_files_are_taken_only_from_the_folder_that_is_named(worker: Worker, tmp_path: Path) -> None:
    media, secret = tmp_path / "media", tmp_path / "secret.txt"
    media.mkdir()
    (media / "film.mov").write_bytes(FILM)
    secret.write_text("secret")
    (media / "link.mov").symlink_to(secret)
    (media / "out").symlink_to(tmp_path)
    allowed = f"file:{media}"

    assert (await worker.bring(f"file://{media}/film.mov", allowed)).read_bytes() == FILM
    worker.folder.create()
    assert (await worker.bring(str(media / "film.mov"), allowed)).read_bytes() == FILM
    for path in (secret, media / "link.mov", media / "../secret.txt", media / "out/secret.txt", Path("/etc/passwd")):
        worker.folder.create()
        refusal = await worker.refusal(str(path), allowed)
        assert refusal.code == "input-forbidden", path
    worker.folder.create()
    assert (await worker.refusal(str(media / "film.mov"))).code == "input-forbidden"
    worker.folder.create()
    assert (await worker.bring(str(secret), is_fleet=False)).read_text() == "secret"


async def test_what_nobody_waits_for_ends(worker: Worker, site: Site) -> None:
    bringing = asyncio.create_task(worker.bring(site.url("/hang"), "http://127.0.0.1"))
    async with asyncio.timeout(10):
        while not site.asked:  # noqa: ASYNC110 - a thread is asked
            await asyncio.sleep(0.01)
        bringing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await bringing
