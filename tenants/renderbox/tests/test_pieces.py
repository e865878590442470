"""What an earlier attempt left is used as far as it is of this plan and unharmed, and no further."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from renderbox import ffmpeg
from renderbox.pieces import Intervals, Piece, Pieces
from renderbox.plan import Plan, plan_for
from renderbox.probe import probe
from renderbox.settings import Settings


@pytest.fixture
def plan(long: Path) -> Plan:
    return plan_for(probe(long, watch=lambda: None), Settings(), ffmpeg.find())


@pytest.fixture
def left(tmp_path: Path, plan: Plan) -> Path:
    """A checkpoint with a sound and three segments."""
    files = [tmp_path / name for name in ("sound.m4a", "video-00000.mp4", "video-00001.mp4", "video-00002.mp4")]
    for file in files:
        file.write_text(file.name)
    sound, *segments = map(Piece.of, files)
    Pieces(plan, sound, segments).lay_out(tmp_path / "left")
    return tmp_path / "left"


def test_a_checkpoint_comes_back_whole(plan: Plan, left: Path) -> None:
    pieces = Pieces.left_in(left, plan)

    assert pieces.sound == Piece.of(left / "sound.m4a")
    assert [piece.path.name for piece in pieces.segments] == ["video-00000.mp4", "video-00001.mp4", "video-00002.mp4"]


def test_a_checkpoint_of_another_plan_is_ignored(plan: Plan, left: Path) -> None:
    for other in (
        replace(plan, settings=Settings(crf=24)),
        replace(plan, encoder="ffmpeg version 0.1"),
        replace(plan, segment_pictures=plan.segment_pictures + 1),
        replace(plan, clip=replace(plan.clip, sha256="0" * 64)),
    ):
        assert Pieces.left_in(left, other) == Pieces(other)


@pytest.mark.parametrize("harm", ["changed", "gone"])
def test_pieces_from_a_harmed_one_on_are_made_again(plan: Plan, left: Path, harm: str) -> None:
    harmed = left / "video-00001.mp4"
    harmed.unlink()
    if harm == "changed":
        harmed.write_text("something else")

    pieces = Pieces.left_in(left, plan)

    assert pieces.sound
    assert [piece.path.name for piece in pieces.segments] == ["video-00000.mp4"]


@pytest.mark.parametrize("table", [None, "", "[]", "{", '{"plan": 1}'])
def test_an_unreadable_checkpoint_is_ignored(plan: Plan, left: Path, table: str | None) -> None:
    (left / "pieces.json").unlink()
    if table is not None:
        (left / "pieces.json").write_text(table)

    assert Pieces.left_in(left, plan) == Pieces(plan)


def test_no_checkpoint_means_from_the_beginning(plan: Plan) -> None:
    assert Pieces.left_in(None, plan) == Pieces(plan)


def test_an_hour_of_dear_checkpoints_costs_a_tenth_of_it_at_most() -> None:
    intervals, now_s, spent_s, taken = Intervals(0), 0.0, 0.0, 0
    while now_s < 3600:
        now_s += 0.5
        if intervals.is_due(now_s):
            cost_s = 0.005 * now_s  # grows with what is finished
            intervals.taken(from_s=now_s, to_s=now_s + cost_s)
            now_s, spent_s, taken = now_s + cost_s, spent_s + cost_s, taken + 1

    assert spent_s <= 360
    assert 20 < taken < 100


def test_a_young_attempt_leaves_its_first_checkpoint_after_two_seconds() -> None:
    intervals = Intervals(100)

    assert not intervals.is_due(101.9)
    assert intervals.is_due(102)
