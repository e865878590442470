"""The same torture for planrun and for what one might take instead, counted by one observer outside all of them.

    python -m bench.torture --peers planrun,fleet,celery,dramatiq,huey

Each scenario with each peer is played by itself, from an empty queue, many beside each other: they mostly sleep.
See bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import shutil
import signal
import sys
import threading
import time
from collections import deque
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from bench.compare import chosen
from bench.contender import Contender, Peer, Unfit, installed, peers
from bench.servers import IMPATIENT, started
from bench.torture.scenarios import SCENARIOS, Lengths, played
from bench.torture.table import Run, set_up, table

PEERS = "planrun,fleet,fleet_apart,celery,dramatiq,huey,rq,procrastinate,pgqueuer,dbos"
LONGEST_FIRST = ("longer", "storm", "freeze", "term", "whole", "child", "twice")


@dataclass(frozen=True)
class Task:
    contender: Contender
    scenario: str
    turn: int


def play(task: Task, lengths: Lengths) -> Run:
    load = os.getloadavg()[0]
    name = task.contender.peer.name
    try:
        counted, said = played(task.scenario, task.contender, lengths)
        return Run(name, task.scenario, task.turn, counted, said, lengths.watch_s, load)
    except Unfit as unfit:
        remark = str(unfit)
    except Exception as error:  # the other runs are not lost with this one
        remark = repr(error)
    return Run(name, task.scenario, task.turn, None, {}, lengths.watch_s, load, remark)


def play_all(tasks: list[Task], lengths: Lengths, *, at_once: int) -> list[Run]:
    """Beside each other; in the order in which they were asked for."""
    left, done = deque(tasks), queue.SimpleQueue[Run]()

    def work() -> None:
        with suppress(IndexError):
            while True:
                done.put(play(left.popleft(), lengths))

    for _ in range(min(at_once, len(tasks))):
        threading.Thread(target=work, daemon=True).start()
    runs: list[Run] = []
    try:
        while len(runs) < len(tasks):
            runs.append(done.get())
            print(f"{len(runs)} of {len(tasks)}: {runs[-1]}", file=sys.stderr)
    finally:
        left.clear()
        for task in tasks:
            task.contender.close()
    order = {(task.contender.peer.name, task.scenario, task.turn): number for number, task in enumerate(tasks)}
    return sorted(runs, key=lambda run: order[run.peer, run.scenario, run.turn])


def tasks_of(
    these: list[Peer], scenarios: list[str], turns: int, folder: Path, data: Path, stack: ExitStack
) -> list[Task]:
    """Peers that cannot be installed or served here say so, and are left out."""
    servers: dict[str, str] = {}
    able: dict[str, Path] = {}
    for peer in these:
        try:
            able[peer.name] = installed(peer, folder / "peers")
            needed = [*peer.servers, *([IMPATIENT] if "rabbitmq" in peer.servers else [])]
            for name in needed:
                if name not in servers:
                    servers[name] = stack.enter_context(started(name, data / "servers" / name))
        except Unfit as unfit:
            able.pop(peer.name, None)
            print(unfit, file=sys.stderr)
    tasks = []
    for turn in range(turns):
        for scenario in sorted(scenarios, key=LONGEST_FIRST.index):
            for peer in these:
                if peer.name in able:
                    own = {name: servers[name] for name in peer.servers}
                    if scenario == "longer" and "rabbitmq" in own:
                        own["rabbitmq"] = servers[IMPATIENT]
                    place = data / f"{peer.name}-{scenario}-{turn}"
                    tasks.append(Task(Contender(peer, place, own, able[peer.name]), scenario, turn))
    return tasks


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=PEERS, help="names from bench/peers/peers.toml")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--turns", type=int, default=2, help="how often each is played")
    parser.add_argument("--at-once", type=int, default=9, help="how many are played beside each other")
    parser.add_argument("--folder", type=Path, default=Path(f"/var/tmp/planrun-bench-{os.getuid()}"), help="on a disk")
    parser.add_argument("--json", type=Path, help="default: torture.json in the folder; the table lies beside it")
    parser.add_argument("--keep", action="store_true", help="keep what the peers and servers wrote")
    for length in fields(Lengths):
        parser.add_argument(f"--{length.name.replace('_', '-')}", type=float, default=length.default)
    return parser.parse_args()


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and end what was started
    asked = parse()
    known = peers()
    these = [known[name] for name in chosen(asked.peers, known)]
    lengths = Lengths(**{length.name: getattr(asked, length.name) for length in fields(Lengths)})
    data = asked.folder / f"torture-{os.getpid()}"
    began_s = time.monotonic()
    with ExitStack() as stack:
        if not asked.keep:
            stack.callback(shutil.rmtree, data, ignore_errors=True)
        tasks = tasks_of(these, chosen(asked.scenarios, SCENARIOS), asked.turns, asked.folder, data, stack)
        runs = play_all(tasks, lengths, at_once=asked.at_once)
    if not runs:
        return 1
    loads = [run.load for run in runs]
    words = [
        table(runs),
        "",
        f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC, {asked.turns} runs of each, "
        f"{time.monotonic() - began_s:.0f} s, {os.cpu_count()} cores, load average {min(loads):.0f} to "
        f"{max(loads):.0f}: "
        f"`python -m bench.torture {' '.join(sys.argv[1:])}`",
        "",
        *(f"not played: {run.peer} {run.scenario}: {run.remark}" for run in runs if run.counted is None),
    ]
    print("\n".join(words))
    kept = asked.json or asked.folder / "torture.json"
    kept.write_text("[\n" + ",\n".join(json.dumps(asdict(run), ensure_ascii=False) for run in runs) + "\n]\n")
    kept.with_suffix(".md").write_text("\n".join([*words, "", set_up([peer.name for peer in these])]) + "\n")
    print(f"every run: {kept}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
