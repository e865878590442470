"""What job code may write on its line, and what becomes of the rest."""

from __future__ import annotations

import asyncio
import json

import pytest

from planrun.worker.happenings import LINE_BYTES_MAX, WAITING_MAX, Failed, Happening, Progress, RunnerLine

pytestmark = pytest.mark.anyio


class Line(asyncio.Transport):
    """A line to a runner, and what came over it."""

    def __init__(self) -> None:
        super().__init__()
        self.happenings: asyncio.Queue[Happening] = asyncio.Queue()
        self.is_paused = False
        self._end = RunnerLine(self.happenings)
        self._end.connection_made(self)

    def pause_reading(self) -> None:
        self.is_paused = True

    def says(self, data: bytes) -> list[Happening]:
        self._end.data_received(data)
        return [self.happenings.get_nowait() for _ in range(self.happenings.qsize())]


def done(outputs: object, value: str = "1") -> dict[str, object]:
    return {"say": "done", "outputs": outputs, "value": value}


@pytest.mark.parametrize(
    "nonsense",
    [
        [],
        {"say": "progress", "fraction": "half", "message": ""},
        {"say": "checkpoint", "seq": 0},
        {"say": "checkpoint", "seq": 2**63},
        {"say": "error", "outcome": "success", "message": "", "code": "x"},
        {"say": "error", "outcome": "fatal", "message": "", "code": "no name"},
        done({"../out": "/scratch/out"}),
        done({"out": "/scratch/\0"}),
        done({}, "NaN"),
        done({}, json.dumps("x" * 10_000_000)),
    ],
)
async def test_what_the_runner_would_not_write_costs_the_attempt_and_nobody_else(nonsense: object) -> None:
    line = Line()

    [failed] = line.says(f"{json.dumps(nonsense)}\n".encode())

    assert isinstance(failed, Failed)
    assert failed.code == "protocol"
    assert line.says(b'{"say": "stopped"}\n') == []


async def test_a_text_is_made_one_that_can_be_stored() -> None:
    [said] = Line().says(b'{"say": "progress", "fraction": 7, "message": "\\ud800"}\n')

    assert said == Progress(1.0, "?")


async def test_a_line_without_an_end_is_not_read_for_ever() -> None:
    line = Line()
    assert line.says(b"x" * LINE_BYTES_MAX) == []

    [failed] = line.says(b"x")

    assert isinstance(failed, Failed)


async def test_a_flood_waits_in_the_job_s_own_socket() -> None:
    line, progress = Line(), b'{"say": "progress", "fraction": 0.5, "message": ""}\n'

    line.says(progress * (WAITING_MAX - 1))
    assert not line.is_paused
    line.says(progress * WAITING_MAX)
    assert line.is_paused
