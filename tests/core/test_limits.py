"""Hung is not slow: which limit is exceeded, and what counts as a sign of life."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planrun.core.kinds import MIB, Kind
from planrun.core.life import Outcome
from planrun.core.limits import Breach, Signs, Vitals, check, look, unseen_ms

KIND = Kind(
    kind="render",
    version="v1",
    module="m",
    max_runtime_s=60,
    stall_s=10,
    memory_bytes_max=100 * MIB,
    output_bytes_max=200 * MIB,
)
START = 1_000_000
NOTHING = Vitals()


def after(seconds: float, *, silent_s: float = 0, vitals: Vitals = NOTHING, kind: Kind = KIND) -> Breach | None:
    now_ms = START + int(seconds * 1000)
    last_sign_ms = now_ms - int(silent_s * 1000)
    return check(kind, started_ms=START, last_sign_ms=last_sign_ms, vitals=vitals, now_ms=now_ms)


def test_at_its_limits_a_job_goes_on() -> None:
    assert after(60, silent_s=10, vitals=Vitals(rss_bytes=100 * MIB, scratch_bytes=200 * MIB)) is None


def test_a_look_that_comes_late_counts_little() -> None:
    assert unseen_ms(looked_ms=START, now_ms=START + 2_000) == 0
    assert unseen_ms(looked_ms=START, now_ms=START + 3_600_000) == 3_598_000


@pytest.mark.parametrize(
    ("breach", "outcome", "code", "words"),
    [
        (after(60.1), Outcome.OVERTIME, "overtime", ["60.1 s", "max_runtime_s = 60"]),
        (after(30, silent_s=10.5), Outcome.STALLED, "stalled", ["10.5 s", "stall_s = 10"]),
        (
            after(1, vitals=Vitals(rss_bytes=101 * MIB)),
            Outcome.TRANSIENT,
            "memory",
            ["101.0 MiB", "memory_bytes_max = 100.0 MiB"],
        ),
        (
            after(1, vitals=Vitals(scratch_bytes=201 * MIB)),
            Outcome.TRANSIENT,
            "output",
            ["201.0 MiB", "output_bytes_max = 200.0 MiB"],
        ),
    ],
)
def test_c50_each_limit_names_itself_and_the_value(
    breach: Breach | None, outcome: Outcome, code: str, words: list[str]
) -> None:
    assert breach is not None
    assert (breach.outcome, breach.code) == (outcome, code)
    assert [word for word in words if word not in breach.message] == []


def test_no_memory_limit_is_no_limit() -> None:
    assert after(1, vitals=Vitals(rss_bytes=10**12), kind=replace(KIND, memory_bytes_max=0)) is None


def test_c53_a_job_that_does_nothing_gives_no_sign() -> None:
    signs = Signs(at_ms=START)
    for second in range(1, 3601):
        cpu_ms = second * 10  # a loop that polls: one per cent of a core
        signs = look(signs, vitals=Vitals(cpu_ms=cpu_ms), progressed=False, now_ms=START + second * 1000)

    assert signs.at_ms <= START + 10_000


@pytest.mark.parametrize("share", [0.05, 0.5, 4])
def test_c53_use_of_cpu_is_a_sign_of_life(share: float) -> None:
    signs = Signs(at_ms=START)
    for second in range(1, 3601):
        vitals = Vitals(cpu_ms=int(second * 1000 * share))
        signs = look(signs, vitals=vitals, progressed=False, now_ms=START + second * 1000)

    assert signs.at_ms > START + 3_590_000


def test_c53_growing_scratch_is_a_sign_of_life_even_after_it_shrank() -> None:
    signs = look(Signs(at_ms=START), vitals=Vitals(scratch_bytes=500), progressed=False, now_ms=START + 1000)
    shrunk = look(signs, vitals=Vitals(scratch_bytes=100), progressed=False, now_ms=START + 2000)
    still = look(shrunk, vitals=Vitals(scratch_bytes=100), progressed=False, now_ms=START + 3000)
    grown = look(still, vitals=Vitals(scratch_bytes=101), progressed=False, now_ms=START + 4000)

    assert (signs.at_ms, shrunk.at_ms, still.at_ms, grown.at_ms) == (START + 1000,) * 3 + (START + 4000,)


def test_a_progress_report_is_a_sign_of_life() -> None:
    signs = look(Signs(at_ms=START), vitals=None, progressed=True, now_ms=START + 5000)

    assert signs == Signs(at_ms=START + 5000)
    assert look(signs, vitals=None, progressed=False, now_ms=START + 9000) == signs


def test_cpu_that_falls_because_a_process_ended_is_a_sign_of_life() -> None:
    busy = Signs(at_ms=START, vitals=Vitals(cpu_ms=10_000))

    assert look(busy, vitals=Vitals(cpu_ms=100), progressed=False, now_ms=START + 1000).at_ms == START + 1000
