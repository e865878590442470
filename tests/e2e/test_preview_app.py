"""The example of a web app, in a real browser: three pages, one render, and what goes wrong on the way."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from planrun import Client
from planrun.core.messages import AttemptRow, JobRow
from renderbox import ffmpeg
from tests.e2e.test_cli import eventually
from tests.lab import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.needs("chromium"), pytest.mark.timeout(600)]

CLIP = ROOT / "examples" / "demo" / "bigbuckbunny.mp4"
SHOWN_MS = 20_000
RENDERED_MS = 240_000
PHONE = {"width": 390, "height": 844}


@dataclass(eq=False)
class Site:
    """The app and a worker beside it, each as the README starts it."""

    folder: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    address: str = ""
    server: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"sqlite:///{self.ledger}"

    @property
    def ledger(self) -> Path:
        return self.folder / "previews.db"

    def start_worker(self) -> None:
        self._start("planrun.cli", "up", "renderbox", "--url", self.url, "--no-http")

    def start_server(self, *options: str) -> None:
        port = self.address.rstrip("/").rpartition(":")[2] or "0"  # the same one after a restart
        told = ("--ledger", str(self.ledger), "--port", port, *options)
        self.server = self._start("examples.preview_app", *told, output=subprocess.PIPE)
        assert self.server.stdout is not None
        self.address = self.server.stdout.readline().removeprefix("preview app: ").strip()
        assert self.address, "the app did not start"

    def stop_server(self) -> None:
        assert self.server is not None
        self.server.terminate()
        said, _ = self.server.communicate(timeout=20)

        assert said == "", "it ends quietly, although pages follow a render"

    def kill_worker(self) -> None:
        """The worker alone: `planrun up` starts another one."""
        with Client(self.url) as client:
            [worker] = client.workers()
        os.kill(worker.pid, signal.SIGKILL)

    def jobs(self) -> Sequence[JobRow]:
        with Client(self.url) as client:
            return client.list().jobs

    def attempts(self) -> Sequence[AttemptRow]:
        """Every start in the ledger."""
        with Client(self.url) as client:
            return [attempt for job in client.list().jobs for attempt in client.attempts(job.job_id)]

    def end(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.communicate(timeout=30)

    def _start(self, module: str, *arguments: str, output: int | None = None) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", module, *arguments]
        process = subprocess.Popen(command, cwd=ROOT, text=True, stdout=output, stderr=output and subprocess.STDOUT)
        self.processes.append(process)
        return process


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    try:
        yield site
    finally:
        site.end()


@pytest.fixture
def visitor(browser: Browser) -> Iterator[BrowserContext]:
    """Somebody with a browser; what goes wrong in one of their pages fails the test."""
    wrong: list[str] = []
    context = browser.new_context()
    context.on("weberror", lambda error: wrong.append(str(error.error)))
    yield context
    context.close()

    assert wrong == []


@pytest.fixture
def film(tmp_path: Path) -> Path:
    """The clip three times over, so that its render can be disturbed."""
    film = tmp_path / "film.mp4"
    command = [ffmpeg.find().path, "-v", "error", "-stream_loop", "2", "-i", str(CLIP), "-c", "copy", str(film)]
    subprocess.run(command, check=True)
    return film


def uploaded(site: Site, context: BrowserContext, file: Path) -> Page:
    """The owner's page, as the upload leads there."""
    page = context.new_page()
    page.goto(site.address)
    page.locator(".ready").wait_for()
    page.locator("#file").set_input_files(file)
    page.wait_for_url("**/clips/*", timeout=SHOWN_MS)
    return page


def shared(owners: Page, context: BrowserContext) -> Page:
    """The page of somebody who was sent the link."""
    button = owners.locator("#share")
    expect(button).to_have_attribute("data-address", re.compile("/shared/"), timeout=SHOWN_MS)
    page = context.new_page()
    page.goto(button.get_attribute("data-address") or "")
    return page


def on_phone(owners: Page, context: BrowserContext) -> Page:
    page = context.new_page()
    page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    page.goto(owners.url)
    return page


def remember(page: Page) -> None:
    """Note every percentage that the page shows while the render runs, from now on."""
    page.evaluate(
        """() => {
            const [card, percent] = ["card", "percent"].map((id) => document.getElementById(id));
            window.percentages = [];
            new MutationObserver(() => {
                if (card.dataset.state === "running") window.percentages.push(parseInt(percent.textContent));
            }).observe(percent, { childList: true });
        }"""
    )


def is_under_way(page: Page) -> None:
    expect(page.locator("#card")).to_have_attribute("data-state", "running", timeout=RENDERED_MS)
    expect(page.locator("#percent")).to_have_text(re.compile(r"[1-9]\d? %"), timeout=RENDERED_MS)


def plays(page: Page) -> None:
    """The video is there, of the right size, and its picture moves."""
    video = page.locator("#video")
    video.wait_for(timeout=RENDERED_MS)
    video.evaluate("async video => { video.muted = true; await video.play(); }")
    eventually(lambda: video.evaluate("video => video.currentTime") > 0.3)
    seen = video.evaluate("video => [video.videoWidth, video.videoHeight, video.readyState >= 2, video.error]")

    assert seen == [1920, 1080, True, None]


def test_three_pages_ask_and_one_render_answers_them_all(site: Site, visitor: BrowserContext) -> None:
    site.start_server()
    owners = uploaded(site, visitor, CLIP)
    pages = [owners, shared(owners, visitor), on_phone(owners, visitor)]
    for page in pages:
        expect(page.locator("#card")).to_have_attribute("data-state", "queued", timeout=SHOWN_MS)
        remember(page)
    site.start_worker()
    for page in pages:
        plays(page)
        assert max(page.evaluate("window.percentages")) > 0

    assert [(job.key or "").partition("/")[2] for job in site.jobs()] == ["preview"]
    assert len(site.attempts()) == 1
    assert pages[2].evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert not pages[1].locator("#cancel, #again, #share").filter(visible=True).count()
    part = httpx2.get(f"{pages[1].url}/preview.mp4", headers={"range": "bytes=4-7"})
    assert (part.status_code, part.content) == (206, b"ftyp")
    assert httpx2.get(f"{owners.url}/preview").json()["state"] == "finished"


def test_many_who_look_first_at_the_same_moment_make_one_job(site: Site) -> None:
    site.start_server()
    page = httpx2.post(f"{site.address}clips?title=film", content=CLIP.read_bytes()).json()["page"]
    assert site.jobs() == ()
    with ThreadPoolExecutor(12) as crowd:
        answers = list(crowd.map(httpx2.get, [f"{site.address.rstrip('/')}{page}/preview"] * 12))
    [job] = site.jobs()

    assert {answer.json()["state"] for answer in answers} == {"queued"}
    assert {answer.json()["title"] for answer in answers} == {"film"}
    with Client(site.url) as client:
        assert [event.what for event in client.events(job.job_id)].count("submitted") == 1


def test_a_killed_worker_a_restarted_server_and_a_reload_lose_nothing(
    site: Site, visitor: BrowserContext, film: Path
) -> None:
    site.start_worker()
    site.start_server()
    owners = uploaded(site, visitor, film)
    other = shared(owners, visitor)
    eventually(lambda: site.jobs()[0].checkpoint, within_s=RENDERED_MS / 1000)
    site.kill_worker()
    site.stop_server()
    expect(other.locator("#problem")).to_contain_text("The work goes on", timeout=SHOWN_MS)
    site.start_server()
    owners.reload()
    for page in (owners, other):
        is_under_way(page)
        expect(page.locator("#problem")).to_be_hidden()
    for page in (owners, other):
        plays(page)

    [job] = site.jobs()
    assert (job.attempt, job.losses, job.failures) == (2, 1, 0)
    with Client(site.url) as client:
        assert "from an earlier attempt" in client.logs(job.job_id, attempt=2)


def test_only_the_owner_cancels_and_everybody_sees_it(site: Site, visitor: BrowserContext, film: Path) -> None:
    site.start_worker()
    site.start_server()
    owners = uploaded(site, visitor, film)
    other = shared(owners, visitor)
    is_under_way(other)
    refused = httpx2.delete(f"{other.url}/preview")
    owners.locator("#cancel").click()
    for page in (owners, other):
        expect(page.locator("#words")).to_have_text("The preview was canceled.", timeout=SHOWN_MS)
    other.reload()
    expect(other.locator("#card")).to_have_attribute("data-state", "canceled", timeout=SHOWN_MS)
    asked_by_looking = len(site.jobs())
    owners.locator("#again").click()
    expect(owners.locator("#cancel")).to_be_visible(timeout=SHOWN_MS)

    assert (refused.status_code, "Only who uploaded" in refused.text) == (403, True)
    assert (asked_by_looking, len(site.jobs())) == (1, 2)


def test_what_is_no_video_is_refused_in_kind_words_and_in_those_of_ffmpeg(
    site: Site, visitor: BrowserContext, tmp_path: Path
) -> None:
    site.start_worker()
    site.start_server()
    (tmp_path / "diary.mp4").write_text("Dear diary, " * 500)
    page = uploaded(site, visitor, tmp_path / "diary.mp4")
    expect(page.locator("#words")).to_have_text("This file is not a video that can be read.", timeout=RENDERED_MS)
    page.locator("summary").click()

    expect(page.locator("#exactly")).to_contain_text("Invalid data")
    expect(page.locator("#again")).to_be_hidden()
    assert len(site.attempts()) == 1


def test_too_large_and_empty_uploads_are_refused_and_leave_nothing(
    site: Site, visitor: BrowserContext, tmp_path: Path
) -> None:
    (site.folder / "previews.db.uploads" / "unfinished-by-one-that-died").mkdir(parents=True)
    site.start_server("--upload-mib-max", "1")
    (tmp_path / "empty.mp4").touch()
    clips = f"{site.address}clips"
    announced = httpx2.post(clips, content=CLIP.read_bytes())
    streamed = httpx2.post(clips, content=iter([bytes(2**19)] * 3))
    page = visitor.new_page()
    page.goto(site.address)
    for file, words in ((CLIP, "larger than 1 MiB"), (tmp_path / "empty.mp4", "is empty")):
        page.locator(".ready").wait_for()
        page.locator("#file").set_input_files(file)
        expect(page.locator("#problem")).to_contain_text(words, timeout=SHOWN_MS)
    lost = httpx2.get(f"{site.address}shared/{'0' * 32}", headers={"accept": "text/html"})

    assert [(answer.status_code, "shorter clip" in answer.text) for answer in (announced, streamed)] == [
        (413, True)
    ] * 2
    assert list((site.folder / "previews.db.uploads").iterdir()) == []
    assert site.jobs() == ()
    assert (lost.status_code, "There is nothing here" in lost.text) == (404, True)
