"""What stands at a public name: the file of the latest job that finished, whole, whatever dies or stands still."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from planrun.client import AsyncClient
from planrun.config import place_of
from planrun.core.errors import StorageError
from planrun.core.history import What
from planrun.core.messages import Failure, Message
from planrun.core.routes import Publish, check_route
from planrun.orchestrator.publisher import Busy, Publisher, Said
from tests.client.stand_in import Hands, open_world

pytestmark = pytest.mark.anyio

MAIN = Path(__file__).with_name("publisher_main.py")
NAME = "campaign-42/master.mp4"


class World:
    """Jobs that ask for one name, and what is owed for them."""

    def __init__(self, client: AsyncClient, hands: Hands, folder: Path) -> None:
        self.client = client
        self.hands = hands
        self.folder = folder
        self.public = place_of(client._url).public
        self.file = self.public / "default" / NAME
        self.publisher = self.another()
        self._owed: dict[str, Message] = {}

    def another(self) -> Publisher:
        return Publisher(self.hands.ledger, self.hands.store, self.public)

    async def submit(self, name: str = NAME) -> str:
        return (await self.client.submit("preview", publish=[name])).id

    async def finish(self, job_id: str, *texts: str) -> None:
        files = {}
        for text in texts:
            files[f"out-{text}"] = self.folder / text
            files[f"out-{text}"].write_text(text)
        await self.hands.finish(job_id, files=files)

    async def owed(self, job_id: str) -> Message:
        for message in await self.hands.ledger.take_messages(limit=10, retry_ms=1):
            self._owed[message.msg_id.split(":")[1]] = message
        return self._owed[job_id]

    async def publish(self, job_id: str) -> Said:
        message = await self.owed(job_id)
        route = check_route(message.route)
        assert isinstance(route, Publish)
        return await self.publisher.publish(message.body, route)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(f"sqlite:///{tmp_path}/ledger.db") as (client, hands):
        yield World(client, hands, tmp_path)


async def test_a_copy_stands_there_which_anybody_may_edit_without_reaching_the_result(world: World) -> None:
    job = await world.submit()
    await world.finish(job, "film")

    assert await world.publish(job) == Said(What.PUBLISHED, NAME)

    [kept] = (await world.client.result(job)).outputs.values()
    assert world.file.read_text() == "film"
    assert (world.file.stat().st_nlink, world.file.stat().st_mode & 0o777) == (1, 0o644)
    assert world.file.stat().st_ino != kept.path.stat().st_ino
    with world.file.open("a") as edited:
        edited.write(", cut by somebody")
    assert kept.path.read_text() == "film"


async def test_a_late_loser_never_replaces_the_file_of_the_later_job(world: World) -> None:
    old, new = await world.submit(), await world.submit()
    await world.finish(old, "old")
    late = await world.owed(old)
    await world.finish(new, "new")
    assert (await world.publish(new)).what == "published"

    route = check_route(late.route)
    assert isinstance(route, Publish)
    for _ in range(2):
        assert (await world.publisher.publish(late.body, route)).what == "superseded"
    assert world.file.read_text() == "new"


async def test_a_later_job_replaces_the_file_and_readers_keep_the_one_they_opened(world: World) -> None:
    old, new = await world.submit(), await world.submit()
    await world.finish(old, "old")
    await world.publish(old)
    with world.file.open() as reading:
        await world.finish(new, "new")
        await world.publish(new)
        assert (reading.read(), world.file.read_text()) == ("old", "new")


@pytest.mark.parametrize(
    ("name", "files", "why"),
    [
        (NAME, (), "one file, and returned no file"),
        (NAME, ("a", "b"), "one file, and returned out-a, out-b"),
        (f"{NAME}=film", ("a",), "the output film, and returned out-a"),
    ],
)
async def test_a_name_without_its_file_is_given_up_with_the_reason(
    world: World, name: str, files: tuple[str, ...], why: str
) -> None:
    job = await world.submit(name)
    await world.finish(job, *files)

    said = await world.publish(job)

    assert said.what == "unpublished"
    assert said.detail.endswith(why)
    assert not world.file.exists()


async def test_one_of_several_outputs_is_published_by_its_name(world: World) -> None:
    job = await world.submit(f"{NAME}=out-b")
    await world.finish(job, "a", "b")
    await world.publish(job)

    assert world.file.read_text() == "b"


async def test_what_is_in_the_way_is_named_and_left_alone(world: World) -> None:
    job = await world.submit()
    await world.finish(job, "film")
    world.public.joinpath("default").mkdir(parents=True)
    world.public.joinpath("default/campaign-42").write_text("a file")

    with pytest.raises(StorageError, match=r"campaign-42.*cannot be written"):
        await world.publish(job)

    assert world.public.joinpath("default/campaign-42").read_text() == "a file"
    world.public.joinpath("default/campaign-42").unlink()
    assert (await world.publish(job)).what == "published"


async def test_a_damaged_object_is_never_published(world: World) -> None:
    job = await world.submit()
    await world.finish(job, "film")
    [kept] = (await world.client.result(job)).outputs.values()
    kept.path.chmod(0o600)
    kept.path.write_text("filn")

    with pytest.raises(StorageError, match="damaged"):
        await world.publish(job)
    assert not world.file.exists()


async def test_a_publisher_that_ends_gives_up_what_it_copies(world: World) -> None:
    job = await world.submit()
    await world.finish(job, "film")
    world.publisher.close()

    with pytest.raises(Busy):
        await world.publish(job)
    world.publisher = world.another()
    assert (await world.publish(job)).what == "published"


# --- processes that die or stand still in between ---

Start = Callable[[Message, str], subprocess.Popen[str]]


@pytest.fixture
def start(world: World, tmp_path: Path) -> Iterator[Start]:
    """Publish in a process of its own, which stops itself at a place; ended for certain."""
    processes = []

    def one(message: Message, place: str) -> subprocess.Popen[str]:
        (tmp_path / "trips").mkdir(exist_ok=True)
        (tmp_path / "trips" / place).touch()
        process = subprocess.Popen(
            [sys.executable, str(MAIN), world.client._url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PLANRUN_TRIP_DIR": str(tmp_path / "trips")},
        )
        processes.append(process)
        assert process.stdin is not None
        process.stdin.write(json.dumps({"body": message.body, "route": message.route}) + "\n")
        process.stdin.flush()
        return process

    yield one
    for process in processes:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


async def until_stopped(folder: Path) -> None:
    until = time.monotonic() + 30
    while not list((folder / "trips").glob("*.reached")):
        assert time.monotonic() < until, "it never got there"
        await asyncio.sleep(0.01)


PLACES = ("publish:copied", "publish:before-rename", "publish:renamed")


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
async def test_killed_in_between_the_next_one_publishes_the_whole_file(
    world: World, start: Start, place: str, tmp_path: Path
) -> None:
    job = await world.submit()
    await world.finish(job, "film")
    killed = start(await world.owed(job), place)
    await until_stopped(tmp_path)
    killed.kill()
    killed.wait()

    assert await world.publish(job) == Said(What.PUBLISHED, NAME)
    assert world.file.read_text() == "film"
    assert [file.name for file in world.public.rglob("*.part")] == []


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
async def test_the_later_job_wins_over_one_that_stood_still_in_between(
    world: World, start: Start, place: str, tmp_path: Path
) -> None:
    old, new = await world.submit(), await world.submit()
    await world.finish(old, "old")
    frozen = start(await world.owed(old), place)
    await until_stopped(tmp_path)
    await world.finish(new, "new")
    with pytest.raises(Busy):
        await world.publish(new)
    frozen.send_signal(signal.SIGCONT)
    said, _ = frozen.communicate(timeout=30)

    assert said == "superseded\n"
    assert world.file.exists() == (place != "publish:copied")
    assert (await world.publish(new)).what == "published"
    assert world.file.read_text() == "new"


async def test_a_job_that_failed_publishes_nothing(world: World) -> None:
    job = await world.submit()
    await world.hands.fail(job, Failure(message="no such filter"))

    assert await world.hands.ledger.take_messages(limit=10, retry_ms=1) == []
