"""`make fleet-demo`: one real render over a network of parts, each of which is killed in its turn.

A private RabbitMQ and S3 server, an orchestrator and three workers, each a process of its own, on free ports. Each
claim that is printed is looked up in the ledger, in the bucket, or measured first; one that does not hold ends the demo
with exit code 1. `--keep` leaves all of it running, for trying out by hand.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from rich.markup import escape

from deploy.local.rabbitmq import NEEDS, RabbitMQ, is_installed
from deploy.local.s3 import BUCKET, Seaweed
from examples.demo.film import CLIP, CREDITS, make_film, played
from examples.demo.run import CALLERS, Demo, NotHeld, Watched, ask, check_resumed, console, deploy, until
from planrun import Client, PlanrunError
from planrun.wiring import open_shared_store

LEASE_S = 30.0
RENDER_S = 75.0  # how long the render should take if nobody disturbed it
TIMES_MIN = 9  # of the clip: a machine that was busy while it was measured may be free afterwards
NEARLY = 0.8
WORKERS = ("worker-1", "worker-2", "worker-3")
STORE = f"s3://{BUCKET}/planrun"


class Receiver(ThreadingHTTPServer):
    """The application that is told the answers: a line for each message that it took."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Taking)
        self.told: list[tuple[str, str]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Taking(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        answer = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.told.append((self.path, json.dumps(answer)))  # type: ignore[attr-defined]
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """The demo speaks for itself."""


@dataclass
class FleetDemo(Demo):
    """What every demo has, the services, and who is told the answers."""

    broker: RabbitMQ = field(default_factory=RabbitMQ)
    receiver: Receiver = field(default_factory=Receiver)
    tokens: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.s3 = Seaweed(self.folder / "s3")
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = int(probe.getsockname()[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def file(self) -> str:
        return f"sqlite:///{self.folder / 'fleet.db'}"

    def make_token(self, scope: str) -> str:
        command = ["token", "create", "--scope", scope, "--namespace", "*", "--name", scope, "--json"]
        made = subprocess.run(
            [sys.executable, "-m", "planrun.cli", *command, "--url", self.file], check=True, capture_output=True
        )
        return str(json.loads(made.stdout)["token"])

    def start_orchestrator(self) -> None:
        services = ("--broker", self.broker.url, "--store", STORE, "--lease-s", f"{LEASE_S:g}", "--gc-grace-s", "0")
        listening = ("--listen", f"127.0.0.1:{self.port}", "--allow-webhook", "127.0.0.1")
        self.start(
            "orchestrator", "orchestrator", *services, *listening, url=self.file, environment=self.s3.environment
        )
        until("the orchestrator serves", self._serves)

    def start_worker(self, name: str) -> None:
        """It is told an address and a token, and hears of broker and store from there."""
        own = {"PLANRUN_TOKEN": self.tokens["work"], "XDG_CACHE_HOME": str(self.folder / name)}
        inputs = (f"file:{self.folder}", f"file:{CLIP.parent}")
        allowed = [word for folder in inputs for word in ("--allow-input", folder)]
        self.start(name, "worker", "renderbox", "--name", name, *allowed, environment=own)

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].wait()

    def objects(self) -> list[str]:
        """What lies in the bucket of the jobs' files."""
        store = open_shared_store(STORE, self.s3.environment)
        return [key for key in store.keys("default/") if not key.endswith(".json")]

    def end(self) -> None:
        super().end()
        self.s3.stop()
        self.broker.remove()
        self.receiver.shutdown()

    def _serves(self) -> bool:
        if self.processes["orchestrator"].poll() is not None:
            raise NotHeld(f"the orchestrator runs: {self.printed_by('orchestrator')[-500:]}")
        with suppress(OSError), urllib.request.urlopen(f"{self.url}/v1/health", timeout=1) as reply:
            return bool(reply.status == 200)
        return False


@dataclass
class FleetWatched(Watched):
    """The log of an attempt that still runs lies on its worker's machine."""

    folder: Path

    def found_by(self, attempt: int) -> str:
        logs = self.folder.glob(f"*/planrun/*/remote.logs/{self.job_id}/{attempt}.log")
        lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()]
        return next((line for line in lines if "from an earlier attempt" in line), "")


def set_up(demo: FleetDemo) -> None:
    demo.step(0, "A broker, an S3 server, an orchestrator, three workers")
    for name, service in (("RabbitMQ", demo.broker), ("S3 server", demo.s3)):
        began_s = time.monotonic()
        with console.status(f"[dim]{name} starts[/]"):
            service.start()
        demo.tell(f"{name:<13} up after {time.monotonic() - began_s:.1f} s, at port {service.port}")
    demo.tokens = {scope: demo.make_token(scope) for scope in ("work", "operate")}
    os.environ["PLANRUN_TOKEN"] = demo.tokens["operate"]
    os.environ["XDG_CACHE_HOME"] = str(demo.folder / "cache")
    demo.start_orchestrator()
    for name in WORKERS:
        demo.start_worker(name)


def kill_worker(demo: FleetDemo, job: Watched) -> None:
    demo.step(2, "kill -9 a worker; its machine starts it again, as systemd would")
    job.until_one_more_is_safe()
    before = job.row()
    holder, at_ms = before.worker or "", time.time() * 1000
    demo.kill(holder)
    demo.tell(f"{holder} is killed at {job.in_words()}")
    demo.start_worker(holder)
    until("the job goes on", lambda: job.goes_on_in(before.attempt + 1))
    old, new = job.attempt(before.attempt), job.attempt(before.attempt + 1)
    assert old and new
    gap_s = (new.granted_at_ms - at_ms) / 1000
    words = f"{new.worker} went on {gap_s:.1f} s after the kill, not after the lease of {LEASE_S:g} s"
    demo.hold(words, gap_s < LEASE_S)
    demo.hold(f"because it was proven: {old.error.message if old.error else ''}", old.outcome == "lost")
    check_resumed(demo, job, before.attempt + 1)


def kill_broker(demo: FleetDemo, job: Watched) -> str:
    """Returns the job that was handed in meanwhile."""
    demo.step(3, "kill -9 the broker")
    before = job.row()
    demo.broker.kill()
    small = job.client.submit("preview", version="v1", inputs={"upload": CLIP}, key="clip/preview", who="late")
    demo.hold("while it is away a job is handed in, and waits", job.client.show(small.id).state == "queued")
    moved = until("the render goes on meanwhile", lambda: job.row().fraction != before.fraction, saying=job.in_words)
    demo.hold(f"the render went on: its progress came over HTTP, {moved:.1f} s later", not ended(job))
    same_attempt(demo, job, before.attempt)
    threading.Thread(target=demo.broker.start, daemon=True).start()
    demo.tell("it starts again, and takes some seconds")
    return small.id


def kill_orchestrator(demo: FleetDemo, job: Watched) -> None:
    demo.step(4, "kill -9 the orchestrator")
    before = job.row()
    demo.kill("orchestrator")
    demo.tell("nobody has the ledger now; workers render on, callers wait")
    time.sleep(2)
    demo.start_orchestrator()
    until("the render is heard of again", lambda: job.row().fraction != before.fraction, saying=job.in_words)
    same_attempt(demo, job, before.attempt)
    demo.hold("callers have noticed nothing", not any(demo.processes[who].poll() for who in CALLERS))


def kill_store(demo: FleetDemo, job: Watched) -> None:
    demo.step(6, "kill -9 the S3 server while the result is on its way")
    until("the render is nearly done", lambda: (job.row().fraction or 0) > NEARLY or ended(job), saying=job.in_words)
    attempt = job.row().attempt
    demo.s3.kill()
    waits = "waiting for the store"
    until("the worker waits for the store", lambda: waits in (job.row().message or ""), saying=job.in_words)
    demo.hold("what is made waits with its worker, under its lease", job.goes_on_in(attempt))
    demo.s3.start()
    until("the render ends", lambda: demo.have_ended(CALLERS), saying=job.in_words)
    demo.hold("it was not rendered again: the same attempt ended it", job.row().attempt == attempt)


def answer(demo: FleetDemo, job: Watched, film: Path) -> Path:
    demo.step(7, "One result, one answer")
    answers = {who: demo.answered_to(who) for who in CALLERS}
    demo.hold("the job finished", all(one["state"] == "finished" for one in answers.values()))
    for who, one in answers.items():
        demo.tell(f"{who:<11}sha256 {one['outputs']['preview']['sha256'][:16]}…")
    demo.hold("three callers, one answer", all(one == answers["phone"] for one in answers.values()))
    ours = f"/{job.job_id}/"
    until("what lost attempts left is collected", lambda: sum(ours in key for key in demo.objects()) == 1)
    demo.hold(f"one object of {job.row().attempt} attempts lies in the bucket; the rest is collected", True)
    routes = [f"/{who}" for who in CALLERS]
    until("the messages arrive", lambda: len(demo.receiver.told) >= len(routes))
    told = sorted(path for path, body in demo.receiver.told if job.job_id in body)
    demo.hold("each of the three was told once, by a webhook", told == sorted(routes))
    preview = demo.folder / "preview.mp4"
    job.client.job(job.job_id).result().outputs["preview"].save(preview)
    demo.hold(*played(film, preview))
    return preview


def late_one(demo: FleetDemo, client: Client, job_id: str) -> None:
    until("the job that waited for the broker ends", lambda: client.show(job_id).ended_at_ms is not None)
    row = client.show(job_id)
    demo.hold(f"the job that waited for the broker {row.state}, in attempt {row.attempt}", row.state == "finished")


def look(demo: FleetDemo) -> None:
    demo.step(8, "planrun check, as the orchestrator's machine and as a worker's")
    checks = {
        "orchestrator-check": (("--broker", demo.broker.url, "--store", STORE), demo.file, demo.s3.environment),
        "worker-check": (("renderbox",), demo.url, {"PLANRUN_TOKEN": demo.tokens["work"]}),
    }
    for name, (options, url, environment) in checks.items():
        demo.start(name, "check", *options, url=url, environment=environment)
    until("both have looked", lambda: demo.have_ended(checks))
    for name in checks:
        said = (demo.folder / f"{name}.out").read_text().strip().splitlines()[-1]
        demo.hold(f"{name}: {said}", demo.processes[name].returncode == 0)


def ended(job: Watched) -> bool:
    return job.row().ended_at_ms is not None


def same_attempt(demo: FleetDemo, job: Watched, attempt: int) -> None:
    row = job.row()
    demo.hold(f"attempt {attempt} goes on: {row.losses} losses, as before", row.attempt == attempt and not ended(job))


def play(demo: FleetDemo) -> Path:
    console.print("[bold]planrun[/]: a render over a network whose every part dies once")
    demo.tell(f"Nothing is shared between the parts but addresses and tokens: {demo.folder}")
    set_up(demo)
    with Client(demo.url) as client:
        with console.status("[dim]measuring this machine[/]"):
            film, preset, times = make_film(demo.folder, RENDER_S, times_min=TIMES_MIN)
        demo.tell(CREDITS.format(times=times))
        until("the workers are ready", lambda: len(client.workers()) == len(WORKERS))
        receiver = f"webhook:http://127.0.0.1:{demo.receiver.server_port}"
        job = FleetWatched(client, ask(demo, film, preset, lambda who: f"{receiver}/{who}"), demo.folder)
        kill_worker(demo, job)
        waiting = kill_broker(demo, job)
        kill_orchestrator(demo, job)
        deploy(demo, job, 5)
        kill_store(demo, job)
        preview = answer(demo, job, film)
        late_one(demo, client, waiting)
        look(demo)
    return preview


def keep(demo: FleetDemo) -> None:
    """Leave everything running until Ctrl-C."""
    console.print(f"\nStill running, until Ctrl-C. To look around:\n  export PLANRUN_URL={demo.url}")
    console.print(f"  export PLANRUN_TOKEN={demo.tokens['operate']}\n  planrun list; planrun workers; planrun check")
    console.print(f"  the API: {demo.url}/   the broker: {demo.broker.url}   S3: {demo.s3.endpoint}")
    with suppress(KeyboardInterrupt):
        signal.pause()


def main() -> int:
    if not is_installed():
        console.print(f"no RabbitMQ on this machine; on Debian or Ubuntu: apt-get install {NEEDS}, or: make packages")
        return 5
    demo = FleetDemo(Path(tempfile.mkdtemp(prefix="planrun-fleet-demo-")))
    try:
        preview = play(demo)
        console.print(f"\n[bold green]All {demo.claims} claims held[/], in {time.monotonic() - demo.began_s:.0f} s.")
        console.print(f"Watch the preview: {preview}")
        if "--keep" in sys.argv[1:]:
            keep(demo)
    except (NotHeld, PlanrunError, RuntimeError) as broken:
        console.print(f"\n[bold red]✗ {escape(str(broken))}[/]\n  what the parts printed lies in {demo.folder}")
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        with suppress(KeyboardInterrupt):
            demo.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
