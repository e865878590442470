"""How many grants a second does an orchestrator give over HTTP, and how long does each take?

A real `planrun orchestrator` with an access token; so many connections, each of which asks again as soon as it has its
answer. A grant is the whole of it: token, attempt, history, committed with synchronous=FULL before it is answered.

Whoever asks is a process of its own and written to cost little; the orchestrator's own CPU time per grant is shown
too, which says what one core could give where the machine does other work.

    python bench/fleet_grants.py [--connections 64] [--grants 10000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import msgspec

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from bench.contender import cpu_s  # noqa: E402 - the path is set above
from bench.servers import HOST, free_port  # noqa: E402
from planrun.clock import SystemClock  # noqa: E402
from planrun.core.messages import GrantRequest, Handler, SubmitRequest, WorkerRow  # noqa: E402
from planrun.ledger.remote.ledger import open_remote  # noqa: E402

BOOT_S = 30
PER_CALL = 1000
LEASE_MS = 3_600_000
KIND = "bench"


@contextmanager
def orchestrator(folder: Path, *more: str) -> Iterator[tuple[subprocess.Popen[bytes], str, str]]:
    """A running one; its process, address and a token."""
    command, ledger, port = [sys.executable, "-m", "planrun.cli"], f"sqlite:///{folder}/ledger.db", free_port()
    scopes = ["--scope", "operate", "--scope", "work", "--namespace", "*"]
    made = subprocess.run(
        [*command, "token", "create", *scopes, "--url", ledger, "--json"], capture_output=True, text=True, check=True
    )
    listen = ["--url", ledger, "--listen", f"{HOST}:{port}"]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen([*command, "orchestrator", *listen, *more], stdout=log, stderr=log)
    try:
        wait_answering(process, f"http://{HOST}:{port}", folder / "log")
        yield process, f"http://{HOST}:{port}", json.loads(made.stdout)["token"]
    finally:
        process.terminate()
        process.wait(20)


def wait_answering(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + BOOT_S
    while True:
        try:
            urlopen(f"{url}/v1/health", timeout=1).close()
            return
        except (URLError, OSError):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"no orchestrator: {log.read_text()[-800:]}") from None
            time.sleep(0.05)


async def fill(url: str, token: str, jobs: int) -> list[str]:
    """A worker, and jobs for it."""
    ledger = open_remote(url, SystemClock.open_system(), token=token, tls=None, wait_s=10)
    handlers = (Handler(kind=KIND, version="v1"),)
    await ledger.register(WorkerRow(incarnation="bench", name="bench", host="bench", slots=jobs, handlers=handlers))
    ids: list[str] = []
    for first in range(0, jobs, PER_CALL):
        requests = [
            SubmitRequest(request_id=f"r{n}", kind=KIND, version="v1", content_hash="c", request_hash="r")
            for n in range(first, min(first + PER_CALL, jobs))
        ]
        ids += [reply.job_id for reply in await ledger.submit(requests)]
    await ledger.close()
    return ids


def request_of(url: str, token: str, job_id: str) -> bytes:
    """As `RemoteLedger` sends it."""
    grant = GrantRequest(job_id=job_id, attempt=1, incarnation="bench", nonce=job_id, lease_ms=LEASE_MS)
    body = msgspec.json.encode({"request": grant})
    head = (
        f"POST /v1/ledger/grant HTTP/1.1\r\nhost: {url.removeprefix('http://')}\r\naccept: */*\r\n"
        "accept-encoding: gzip, deflate\r\nconnection: keep-alive\r\nuser-agent: bench\r\nplanrun-protocol: 1\r\n"
        f"content-type: application/json\r\nauthorization: Bearer {token}\r\nplanrun-generation: 1\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def ask(url: str, token: str, job_ids: Sequence[str], connections: int) -> tuple[float, list[float]]:
    """All of them, over so many connections. Seconds for all, and milliseconds of each, sorted."""
    host, _, port = url.removeprefix("http://").partition(":")
    requests = iter([request_of(url, token, job_id) for job_id in job_ids])
    poll = select.epoll()
    opened: dict[int, socket.socket] = {}
    arrived: dict[int, bytes] = {}
    sent_s: dict[int, float] = {}
    took_ms: list[float] = []
    for _ in range(connections):
        connection = socket.create_connection((host, int(port)))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened[connection.fileno()] = connection
        poll.register(connection, select.EPOLLIN)
    began_s = time.perf_counter()
    for number, connection in opened.items():
        sent_s[number] = time.perf_counter()
        connection.sendall(next(requests))
    while len(took_ms) < len(job_ids):
        for number, _ in poll.poll():
            if not is_whole(received := arrived.pop(number, b"") + opened[number].recv(65536)):
                arrived[number] = received
                continue
            now_s = time.perf_counter()
            took_ms.append((now_s - sent_s[number]) * 1000)
            if (following := next(requests, None)) is not None:
                sent_s[number] = now_s
                opened[number].sendall(following)
    took_s = time.perf_counter() - began_s
    for connection in opened.values():
        connection.close()
    return took_s, sorted(took_ms)


def is_whole(reply: bytes) -> bool:
    """Has all of a reply arrived? Anything but a grant ends the measurement."""
    head, gap, body = reply.partition(b"\r\n\r\n")
    if not gap or len(body) < int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]):
        if reply:
            return False
    elif head.startswith(b"HTTP/1.1 200 ") and b'"lease"' in body:
        return True
    raise RuntimeError(f"not granted: {reply.decode()[:800]}")


def measure(asked: argparse.Namespace, folder: Path) -> None:
    with orchestrator(folder) as (process, url, token), multiprocessing.get_context("spawn").Pool(1) as pool:
        jobs = asyncio.run(fill(url, token, asked.grants * (asked.rounds + 1)))
        rates, each_us = [], []
        for turn in range(asked.rounds + 1):
            mine = jobs[turn * asked.grants : (turn + 1) * asked.grants]
            used_s = cpu_s(process.pid)
            took_s, took_ms = pool.apply(ask, (url, token, mine, asked.connections))
            cpu_us = (cpu_s(process.pid) - used_s) * 1e6 / len(mine)
            p50, p99 = took_ms[len(took_ms) // 2], took_ms[int(len(took_ms) * 0.99)]
            word = "warming up" if turn == 0 else f"round {turn}"
            print(
                f"{word}: {len(mine) / took_s:,.0f} grants/s, p50 {p50:.1f} ms, p99 {p99:.1f} ms, "
                f"{cpu_us:.0f} us of CPU each",
                flush=True,
            )
            if turn:
                rates.append(len(mine) / took_s)
                each_us.append(cpu_us)
        print(
            f"{asked.connections} connections: best {max(rates):,.0f} grants/s, median {statistics.median(rates):,.0f}"
            f"; CPU of the orchestrator {statistics.median(each_us):.0f} us each; load average {os.getloadavg()[0]:.1f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--grants", type=int, default=5000, help="in each round")
    parser.add_argument("--rounds", type=int, default=3)
    with tempfile.TemporaryDirectory(prefix="planrun-bench-", dir="/var/tmp") as folder:
        measure(parser.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
