"""`make demo`: one real render, three who ask for it, and everything that usually goes wrong.

Real workers and callers, each a process of its own, over one SQLite file in a new folder. Each claim
that is printed is looked up in the ledger or measured first; one that does not hold ends the demo with exit code 1.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from examples.demo.film import CLIP, CREDITS, make_film, played
from planrun import Client, PlanrunError
from planrun.core.messages import AttemptRow, JobRow

CALLERS = ("browser", "share-page", "phone")
LEASE_S = 3.0
RENDER_S = 14.0  # how long the render should take if nobody disturbed it
PATIENCE_S = 300.0  # for machines that do much else

console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 120)


class NotHeld(Exception):
    """Something that the demo claims is not so."""


@dataclass
class Demo:
    """One run of the demo: its folder, its processes (workers and callers) by name, the claims checked so far."""

    folder: Path
    began_s: float = field(default_factory=time.monotonic)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    claims: int = 0

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'demo.db'}"

    def step(self, number: int, title: str) -> None:
        console.print(f"\n[bold]{number}. {title}[/]  [dim]{time.monotonic() - self.began_s:.0f} s[/]")

    def tell(self, text: str) -> None:
        console.print(f"   {escape(text)}")

    def hold(self, claim: str, truth: bool) -> None:
        """Print a claim that is true, or end the demo."""
        if not truth:
            raise NotHeld(claim)
        self.claims += 1
        console.print(f"   [green]✓[/] {escape(claim)}")

    def start(self, name: str, *command: str, url: str = "", environment: Mapping[str, str] | None = None) -> None:
        """Run a planrun command in a process of its own; see `answered_to` and `printed_by`.

        Args:
            url, environment: Where that process shall differ from the others.
        """
        with (self.folder / f"{name}.out").open("wb") as out, (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "planrun.cli", *command, "--url", url or self.url],
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                cwd=self.folder,
            )

    def start_worker(self, name: str) -> None:
        self.start(name, "worker", "renderbox", "--name", name, "--lease-s", f"{LEASE_S:g}", "--gc-grace-s", "0")

    def answered_to(self, name: str) -> Any:
        return json.loads((self.folder / f"{name}.out").read_text())

    def printed_by(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def have_ended(self, names: Iterable[str]) -> bool:
        return all(self.processes[name].poll() is not None for name in names)

    def end(self) -> None:
        """Leave no process behind."""
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def until(what: str, look: Callable[[], bool], *, saying: Callable[[], str] = lambda: "") -> float:
    """Wait until something is so; returns how many seconds it took. What goes on meanwhile is shown."""
    began_s = time.monotonic()
    with console.status(f"[dim]{what}[/]") as status:
        while not look():
            if time.monotonic() - began_s > PATIENCE_S:
                raise NotHeld(f"{what}: not so after {PATIENCE_S:.0f} s")
            status.update(f"[dim]{escape(saying() or what)}[/]")
            time.sleep(0.05)
    return time.monotonic() - began_s


@dataclass
class Watched:
    """The one render, as the ledger sees it."""

    client: Client
    job_id: str

    def row(self) -> JobRow:
        return self.client.show(self.job_id)

    def attempt(self, number: int) -> AttemptRow | None:
        return next((one for one in self.client.attempts(self.job_id) if one.attempt == number), None)

    def goes_on_in(self, number: int) -> bool:
        found = self.attempt(number)
        return found is not None and found.ended_at_ms is None

    def segments_safe(self) -> int:
        """How many finished segments the newest checkpoint holds."""
        checkpoint = self.row().checkpoint
        return sum(file.name.startswith("video-") for file in checkpoint.files) if checkpoint else 0

    def until_one_more_is_safe(self) -> None:
        """Wait until this attempt has left a checkpoint with at least one more segment."""
        safe = self.segments_safe()

        def is_safe() -> bool:
            if self.row().ended_at_ms is not None:
                raise NotHeld("the render lasts long enough to be disturbed: it ended too early")
            return self.segments_safe() > safe

        until("a checkpoint with a new segment", is_safe, saying=self.in_words)

    def found_by(self, attempt: int) -> str:
        """What that attempt says it found of the earlier ones; empty: nothing yet."""
        lines = self.client.logs(self.job_id, attempt=attempt).splitlines()
        return next((line for line in lines if "from an earlier attempt" in line), "")

    def in_words(self) -> str:
        row = self.row()
        return f"attempt {row.attempt} on {row.worker}: {row.message}" if row.worker else f"attempt {row.attempt} waits"


def ask(demo: Demo, film: Path, preset: str, route: Callable[[str], str]) -> str:
    """Three processes submit the same key at once, and wait. Returns the job.

    Args:
        route: Where each of them is told the answer.
    """
    demo.step(1, "Three ask for the same preview at once: a browser, a share page, a phone")
    for who in CALLERS:
        asked = ["--input", f"upload={film}", "--key", "film/preview", "--who", who, "--notify", route(who)]
        demo.start(who, "submit", "preview", f"preset={preset}", *asked, "--wait", "--json")
    until("all three are told their job", lambda: all(demo.printed_by(who) for who in CALLERS))
    words = [demo.printed_by(who).split() for who in CALLERS]
    for who, (job, disposition, *_) in zip(CALLERS, words, strict=True):
        demo.tell(f"{who:<11}job {job[:8]}  {disposition}")
    (job_id,) = {word[0] for word in words}
    demo.hold("one job: one made it, two joined it", sorted(word[1] for word in words) == ["joined", "joined", "new"])
    return job_id


def into_inbox(demo: Demo, who: str) -> str:
    (demo.folder / "inbox").mkdir(exist_ok=True)
    return f"command:{shlex.join(['tee', '-a', str(demo.folder / 'inbox' / who)])}"


def check_resumed(demo: Demo, job: Watched, attempt: int) -> None:
    until("the checkpoint is taken up", lambda: bool(job.found_by(attempt)))
    found = job.found_by(attempt)
    demo.hold(f"it did not start over: {found}", int(found.split()[0]) > 0)


def kill(demo: Demo, job: Watched) -> None:
    demo.step(2, "kill -9 in the middle of the render")
    job.until_one_more_is_safe()
    holder = job.row().worker or ""
    at_ms = time.time() * 1000
    demo.processes[holder].kill()
    demo.tell(f"{holder} is killed at {job.in_words()}")
    until("another worker takes over", lambda: job.goes_on_in(2))
    first, second = job.attempt(1), job.attempt(2)
    assert first and second and first.error
    gap_s = (second.granted_at_ms - at_ms) / 1000
    demo.hold(
        f"{second.worker} went on {gap_s:.2f} s after the kill, not after the lease of {LEASE_S:g} s", gap_s < LEASE_S
    )
    demo.hold(f"because it had proof: {first.error.message}", first.outcome == "lost" and "lock" in first.error.message)
    check_resumed(demo, job, 2)
    demo.start_worker("worker-3")


def freeze(demo: Demo, job: Watched) -> None:
    demo.step(3, "A worker stands still beyond its lease (SIGSTOP), and comes back")
    job.until_one_more_is_safe()
    stale = job.row().worker or ""
    demo.processes[stale].send_signal(signal.SIGSTOP)
    demo.tell(f"{stale} is frozen; it is not dead, so nobody has proof")
    took_s = until("its lease runs out", lambda: job.goes_on_in(3))
    second, third = job.attempt(2), job.attempt(3)
    assert second and third and second.error
    demo.hold(f"{third.worker} took over after {took_s:.1f} s: {second.error.message}", second.outcome == "lost")
    check_resumed(demo, job, 3)
    demo.processes[stale].send_signal(signal.SIGCONT)
    demo.tell(f"{stale} wakes up and believes it still holds the job")

    def is_refused() -> bool:
        second = job.attempt(2)
        return second is not None and second.stopped and "lost" in demo.printed_by(stale)

    until("the stale one is refused", is_refused, saying=job.in_words)
    line = next(line for line in demo.printed_by(stale).splitlines() if "lost" in line)
    demo.tell(f"{stale} says: {line.strip()}")
    for event in job.client.events(job.job_id):
        if event.attempt == 2 and event.what in ("lost", "refused", "stopped"):
            demo.tell(f"ledger: attempt 2 {event.what} {event.detail}".rstrip())
    demo.hold("the stale attempt is refused: it stopped, and nothing of it is visible", job.goes_on_in(3))


def deploy(demo: Demo, job: Watched, number: int = 4) -> None:
    attempt = job.row().attempt
    demo.step(number, "A deploy: a worker of the new release starts, the old ones get SIGTERM")
    old = [name for name, process in demo.processes.items() if process.poll() is None and name.startswith("worker")]
    demo.start_worker("release-2")
    until("the new worker is ready", lambda: "release-2" in (one.name for one in job.client.workers()))
    job.until_one_more_is_safe()
    before = job.row()
    at_ms = time.time() * 1000
    for name in old:
        demo.processes[name].terminate()
    until("the job is handed over", lambda: job.goes_on_in(attempt + 1))
    old_one, new_one, after = job.attempt(attempt), job.attempt(attempt + 1), job.row()
    assert old_one and new_one
    gap_s = (new_one.granted_at_ms - at_ms) / 1000
    demo.hold(
        f"{old_one.worker} left a checkpoint and handed the job to {new_one.worker} within {gap_s:.2f} s",
        old_one.outcome == "released" and new_one.worker == "release-2",
    )
    check_resumed(demo, job, attempt + 1)
    demo.hold(
        "a deploy is nobody's fault: no failure and no loss was counted",
        (after.failures, after.losses, after.handbacks) == (before.failures, before.losses, before.handbacks + 1),
    )
    until("the old workers are gone", lambda: demo.have_ended(old))
    demo.hold("the old workers ended with exit code 0", not any(demo.processes[name].returncode for name in old))


def answer(demo: Demo, job: Watched, film: Path) -> Path:
    """What the three got. Returns the preview."""
    demo.step(5, "One result, one answer")
    until("the render ends", lambda: demo.have_ended(CALLERS), saying=job.in_words)
    answers = {who: demo.answered_to(who) for who in CALLERS}
    demo.hold("the job finished", all(one["state"] == "finished" for one in answers.values()))
    for who, one in answers.items():
        demo.tell(f"{who:<11}sha256 {one['outputs']['preview']['sha256'][:16]}…")
    demo.hold("three callers, one answer", all(one == answers["phone"] for one in answers.values()))
    preview = Path(answers["phone"]["outputs"]["preview"]["path"])
    until("what lost attempts left is collected", lambda: stored(demo) == [preview])
    demo.hold(f"one stored file of {job.row().attempt} attempts; all that the others left is collected", True)
    inboxes = [demo.folder / "inbox" / who for who in CALLERS]
    until("the messages arrive", lambda: all(inbox.exists() and inbox.stat().st_size for inbox in inboxes))
    told = [inbox.read_text().count(f'"{job.job_id}"') for inbox in inboxes]
    demo.hold("each of the three was notified once", told == [1, 1, 1])
    demo.hold(*played(film, preview))
    return preview


def bad_filter(demo: Demo, client: Client) -> None:
    demo.step(6, "A job that cannot work: filters=scal=640:360")
    job = client.submit(
        "preview", version="v1", inputs={"upload": CLIP}, params={"filters": "scal=640:360"}, who="demo"
    )
    until("it ends", lambda: client.show(job.id).ended_at_ms is not None)
    failed = job.result()
    assert failed.error
    demo.tell(failed.error.message)
    demo.hold(
        f"it failed once, with FFmpeg's words and the code {failed.error.code}",
        failed.state == "failed" and failed.attempt == 1 and failed.error.code == "ffmpeg-bad-filter",
    )


def table(demo: Demo, client: Client) -> None:
    demo.step(7, "What the ledger says")
    shown = Table("job", "state", "attempt", "on", "ended as", "because", box=None, padding=(0, 2))
    render, failed = reversed(client.list().jobs)
    for row in (render, failed):
        for one in client.attempts(row.job_id):
            first = one.attempt == 1
            said = escape(one.error.message[:50]) if one.error else ""
            shown.add_row(
                *(row.job_id[:8] if first else "", row.state if first else "", str(one.attempt)),
                *(one.worker, one.outcome, said),
            )
    console.print(shown)
    demo.tell(
        f"The render cost {render.failures} of {render.max_attempts} failures, {render.losses} of {render.max_losses} "
        f"losses, {render.handbacks} of {render.max_handbacks} hand-backs (newer checkpoints clear those)."
    )
    files, notices = len(stored(demo)), len(list((demo.folder / "inbox").iterdir()))
    demo.tell(f"Stored files: {files}. Messages sent: {notices}, one to each of the three.")
    demo.start("check", "check")
    until("planrun check has looked", lambda: demo.have_ended(["check"]))
    demo.hold("`planrun check` finds no broken rule in the ledger", demo.processes["check"].returncode == 0)


def stored(demo: Demo) -> list[Path]:
    return [path for path in (demo.folder / "demo.db.store").rglob("*") if path.is_file()]


def play(demo: Demo) -> Path:
    console.print("[bold]planrun[/]: a render that survives a kill, a freeze and a deploy")
    demo.tell(f"Two workers, one SQLite file, no service: {demo.folder}")
    with Client(demo.url) as client:
        for name in ("worker-1", "worker-2"):
            demo.start_worker(name)
        with console.status("[dim]measuring this machine[/]"):
            film, preset, times = make_film(demo.folder, RENDER_S)
        demo.tell(CREDITS.format(times=times))
        until("the workers are ready", lambda: len(client.workers()) == 2)
        job = Watched(client, ask(demo, film, preset, partial(into_inbox, demo)))
        kill(demo, job)
        freeze(demo, job)
        deploy(demo, job)
        preview = answer(demo, job, film)
        bad_filter(demo, client)
        table(demo, client)
    return Path(shutil.copyfile(preview, demo.folder / "preview.mp4"))


def main() -> int:
    demo = Demo(Path(tempfile.mkdtemp(prefix="planrun-demo-")))
    try:
        preview = play(demo)
    except (NotHeld, PlanrunError) as broken:
        console.print(f"\n[bold red]✗ {escape(str(broken))}[/]\n  what the workers printed lies in {demo.folder}")
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        with suppress(KeyboardInterrupt):
            demo.end()
    console.print(f"\n[bold green]All {demo.claims} claims held[/], in {time.monotonic() - demo.began_s:.0f} s.")
    console.print(f"Watch the preview: {preview}\nLook around:       planrun list --url {demo.url}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
