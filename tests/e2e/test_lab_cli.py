"""`planrun lab` as a person sees it: the timeline, the sentence, and the page without anything else."""

from __future__ import annotations

import signal
from urllib.request import urlopen

import pytest

from planrun.cli.exits import Exit
from planrun.sim.lab.settings import Choice, Preset, link_of
from tests.e2e.test_cli import Planrun, folder, planrun, started, strict_json

__all__ = ["folder", "planrun"]

pytestmark = pytest.mark.slow


def test_the_timeline_shows_where_everybody_stands_and_ends_in_a_sentence(planrun: Planrun) -> None:
    status, out, err = planrun("lab")
    rows = [" ".join(line.split()) for line in out.splitlines()]

    assert (status, err) == (Exit.FINISHED, "")
    assert "0 s ● · A · A: Takes the lease with fencing token 33" in rows
    assert "10 s ░ ● B · B: Takes the lease with fencing token 34" in rows
    assert "11 s ░ · · ● store: Takes worker B's write (token 34)" in rows
    assert any(row.startswith("14 s · · · ● store: Takes worker A's write (token 33) and overwrites") for row in rows)
    assert "overwrote the result that worker B (token 34) had stored at 11 s" in " ".join(rows)
    assert "again: planrun lab stalled" in rows


def test_the_same_run_as_json(planrun: Planrun) -> None:
    status, out, _ = planrun("lab", "stalled", "--fencing", "on", "--json")
    history = strict_json(out)

    assert status == Exit.FINISHED
    assert history["sentence"].startswith("At 14 s the store refused")
    assert history["command"] == "planrun lab stalled --fencing on"


def test_what_is_out_of_bounds_is_named(planrun: Planrun) -> None:
    status, out, err = planrun("lab", "--lease-s", "0.2")

    assert (status, out) == (Exit.USAGE, "")
    assert err.startswith("planrun: --lease-s: expected") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (["crash", "--at-s", "1"], "--at-s would change nothing, for the moment is settle: leave it out, or say --mom"),
        (["--fault", "none", "--for-s", "3"], "--for-s would change nothing, for nothing goes wrong: "),
        (["crash", "--fencing", "on"], "--fencing would change nothing, for each attempt has a key of its own: "),
        (["crash", "--at-s", "1", "--serve"], "--at-s would change nothing"),
        (["--lease-s", "8.55"], "--lease-s: the lab counts in tenths of a second"),
        (["--listen", "127.0.0.1:0"], "--listen says where the page is: leave it out, or give --serve, too"),
        (["--serve", "--json"], "--json prints a run, and --serve shows one on a page"),
    ],
)
def test_what_would_not_be_followed_is_refused(planrun: Planrun, tokens: list[str], words: str) -> None:
    status, out, err = planrun("lab", *tokens)

    assert (status, out) == (Exit.USAGE, "")
    assert err.startswith(f"planrun: {words}") and err.count("\n") == 1


def test_the_page_begins_with_the_run_that_was_asked_for() -> None:
    with started("lab", "crash", "--lease-s", "8", "--serve", "--listen", "127.0.0.1:0") as lab:
        assert lab.stderr is not None
        address = lab.stderr.readline().split()[2].rstrip(",")
        with urlopen(address, timeout=20) as reply:
            assert reply.status == 200

    assert address.partition("?")[2] == link_of(Choice(preset=Preset.CRASH, lease_s=8).settings())


def test_the_page_is_served_until_it_is_told_to_end() -> None:
    with started("lab", "--serve", "--listen", "127.0.0.1:0") as lab:
        assert lab.stderr is not None
        address = lab.stderr.readline().split()[2].rstrip(",")
        with urlopen(address, timeout=20) as reply:
            page = reply.read().decode()
        lab.send_signal(signal.SIGTERM)

        assert "lease lab" in page
        assert lab.wait(timeout=30) == Exit.FINISHED
