"""Payloads as every way in carries them: the client, the command line, HTTP, and what a job returns."""

from __future__ import annotations

import http.client
import json
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from planrun import Client
from planrun.cli.app import run
from planrun.cli.exits import Exit
from planrun.config import VALUE_BYTES_MAX
from planrun.core.errors import Invalid
from planrun.core.requests import PARAMS_BYTES_MAX
from tests.web.test_up import Up, folder, started

__all__ = ["folder"]

JOBS = """
from typing import Any
from planrun.jobs import JobContext, job

@job("echo", warm=True)
def echo(j: JobContext) -> Any:
    return {"seen": repr(j.params["x"]), "x": j.params["x"]}

@job("length", warm=True)
def length(j: JobContext) -> int:
    return len(j.params["x"])

@job("big")
def big(j: JobContext) -> str:
    return "x" * (j.params["bytes"] - 2)

@job("probe", warm=True)
def probe(j: JobContext) -> None:
    pass
"""
ACCEPTED = [
    2**63, -(2**64), 1e308, 5e-324, 0.1, -0.0, 1.0, "", "ü\u0000\n\U0001f3ac", None, True, [], {},
    {"a": [{"1": {"": [1.5, None]}}]}, "NaN", "2026-01-01",
]  # fmt: skip
BY_PYTHON_ALONE = [(1, 2), {1: "one"}, {1, 2}, date(2026, 1, 1), Decimal("1.5"), b"bytes", uuid.uuid4()]
NO_NUMBERS = ["NaN", "-Infinity"]  # the command line takes for text what is no JSON, and so it arrives
NO_JSON = [*NO_NUMBERS, "1e999", f"1{'0' * 5000}", "[" * 50_000 + "]" * 50_000, '"\\ud800"']
EVERY_WAY = ["client", "command line", "http"]


@dataclass
class Doors:
    """Three ways to submit one param `x`; each returns the id, or raises Refused."""

    up: Up
    client: Client
    url: str
    capfd: pytest.CaptureFixture[str]

    def submit(self, way: str, kind: str, value: Any) -> str:
        match way:
            case "client":
                return self.client.submit(kind, params={"x": value}).id
            case "http":
                return self.post(kind, json.dumps(value))
            case _:
                return self.command(kind, json.dumps(value))

    def command(self, kind: str, text: str) -> str:
        self.capfd.readouterr()
        status = run(["submit", kind, f"x={text}", "--json"])
        out, err = self.capfd.readouterr()
        if status == Exit.USAGE:
            raise Refused(err)
        job_id: str = json.loads(out)["job_id"]
        return job_id

    def post(self, kind: str, text: str) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self.up.port, timeout=60)
        try:
            body = f'{{"kind": "{kind}", "params": {{"x": {text}}}}}'
            connection.request("POST", "/v1/jobs", body, {"content-type": "application/json"})
            reply = connection.getresponse()
            answer = json.loads(reply.read())
        finally:
            connection.close()
        if 400 <= reply.status < 500:
            raise Refused(answer["detail"])
        job_id: str = answer["job_id"]
        return job_id

    def value(self, job_id: str) -> Any:
        """What the job returned, as a strict reader of HTTP sees it."""
        answer = self.client.wait(job_id, timeout_s=60)
        assert answer.state == "finished", answer.error
        _, found = self.up.ask("GET", f"/v1/jobs/{job_id}/result")
        assert repr(found["value"]) == repr(answer.value)
        return answer.value


class Refused(Exception):
    """In words for people."""


@pytest.fixture
def doors(folder: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[Doors]:
    (folder / "film_jobs.py").write_text(JOBS)
    url = f"sqlite:///{folder}/ledger.db"
    with started() as up, Client(url) as client:
        yield Doors(up, client, url, capfd)


@pytest.mark.parametrize("way", EVERY_WAY)
def test_c90_what_is_accepted_arrives_equal_and_comes_back_equal(doors: Doors, way: str) -> None:
    jobs = [doors.submit(way, "echo", value) for value in ACCEPTED]

    for job_id, value in zip(jobs, ACCEPTED, strict=True):
        back = doors.value(job_id)
        assert (back["seen"], repr(back["x"])) == (repr(value), repr(value))


def test_c90_what_would_arrive_changed_is_refused_at_submit_with_its_path(doors: Doors) -> None:
    for value in BY_PYTHON_ALONE:
        with pytest.raises(Invalid, match=r"params\.x\.deep\[0\]"):
            doors.submit("client", "echo", {"deep": [value]})
    for text in NO_JSON:
        refuse = [doors.post] if text in NO_NUMBERS else [doors.post, doors.command]
        for submit in refuse:
            with pytest.raises(Refused) as refused:
                submit("echo", f"[{text}]")
            assert len(str(refused.value).splitlines()) == 1

    assert set(doors.client.counts().values()) == {0}
    assert doors.value(doors.command("echo", "[NaN]"))["x"] == "[NaN]"


@contextmanager
def probing(doors: Doors) -> Iterator[list[float]]:
    """Small jobs one after another meanwhile; how long each took from submit to answer, in seconds."""
    took_s: list[float] = []
    over = threading.Event()

    def probe() -> None:
        with Client(doors.url) as client:
            while not over.is_set():
                began = time.monotonic()
                client.submit("probe").wait(timeout_s=60)
                took_s.append(time.monotonic() - began)

    thread = threading.Thread(target=probe)
    thread.start()
    try:
        yield took_s
    finally:
        over.set()
        thread.join(90)


def test_c88_a_limit_is_named_at_the_door_and_small_jobs_go_on(doors: Doors) -> None:
    """Limit - 1, limit, limit + 1, and far beyond, by each way in."""
    around = len('{"x":""}')
    with probing(doors) as took_s:
        for way in EVERY_WAY:
            for over in (-1, 0):
                job_id = doors.submit(way, "length", "a" * (PARAMS_BYTES_MAX - around + over))
                assert doors.value(job_id) == PARAMS_BYTES_MAX - around + over
            for over in (1, 3_000_000):
                with pytest.raises((Invalid, Refused), match=f"{PARAMS_BYTES_MAX} bytes"):
                    doors.submit(way, "length", "a" * (PARAMS_BYTES_MAX - around + over))
        for way in EVERY_WAY:
            with pytest.raises((Invalid, Refused)):
                doors.submit(way, "length", "a" * 100_000_000)

    assert len(took_s) > 3
    assert max(took_s) < 20, took_s


def test_c88_an_answer_that_is_too_large_fails_once_and_says_what_to_do(doors: Doors) -> None:
    with probing(doors) as took_s:
        jobs = [
            doors.client.submit("big", params={"bytes": VALUE_BYTES_MAX + over}) for over in (-1, 0, 1, 100_000_000)
        ]
        answers = [job.wait(timeout_s=60) for job in jobs]

    assert [answer.state for answer in answers] == ["finished", "finished", "failed", "failed"]
    assert [doors.client.show(job.id).attempt for job in jobs] == [1] * 4
    for answer in answers[2:]:
        assert answer.error is not None
        assert f"larger than {VALUE_BYTES_MAX} bytes" in answer.error.message
        assert "file" in answer.error.message
    assert 0 < max(took_s) < 20, took_s
