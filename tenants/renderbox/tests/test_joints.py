"""No picture is lost or doubled: not where segments meet, not where a later attempt goes on."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from attempt import Attempt
from media import counted, numbers_in, times_in
from planrun.jobs import Stopped

FAST = {"preset": "ultrafast", "crf": 30}
X264 = {
    "plain": {"g": "25", "bf": "0"},
    "b-frames": {"preset": "veryfast", "g": "48", "bf": "3"},
    "open-gop": {"preset": "veryfast", "g": "30", "bf": "3", "x264-params": "open-gop=1"},
}
SECONDS = 8


def at_steady(rate: Fraction) -> tuple[range, Fraction]:
    return range(round(SECONDS * rate)), 1 / rate


def rendered_with_a_stop(folder: Path, clip: Path, params: dict[str, object]) -> Path:
    """Ask the first attempt to stop once a segment is finished, go on with a second one."""

    def has_finished_one(attempt: Attempt) -> bool:
        return (attempt.scratch / "work/video-00001.mp4").exists()

    first = Attempt(folder / "1", clip, params, stop_when=has_finished_one)
    with pytest.raises(Stopped):
        first.run()
    left = first.checkpoints[-1]
    assert (left / "video-00000.mp4").exists()
    second = Attempt(folder / "2", clip, params, checkpoint=left)
    out = second.run()
    assert not (second.scratch / "work/video-00000.mp4").exists(), "it was rendered again"
    return out


@pytest.mark.parametrize("rate", ["24000/1001", "25", "30000/1001", "60"])
@pytest.mark.parametrize("container", ["mp4", "mkv"])
def test_every_picture_comes_once_and_in_order(tmp_path: Path, rate: str, container: str) -> None:
    times, tick = at_steady(Fraction(rate))
    clip = counted(tmp_path / f"in.{container}", times, tick, Fraction(rate), X264["b-frames"])

    out = Attempt(tmp_path / "a", clip, FAST).run()

    assert numbers_in(out) == list(times)
    assert times_in(out) == [n / Fraction(rate) for n in times]


@pytest.mark.parametrize("gop", X264)
@pytest.mark.parametrize("container", ["mp4", "mkv", "ts"])
@pytest.mark.parametrize("filters", ["", "eq=brightness=0"])
def test_a_second_attempt_goes_on_with_the_very_next_picture(
    tmp_path: Path, gop: str, container: str, filters: str
) -> None:
    times, tick = at_steady(Fraction(30000, 1001))
    clip = counted(tmp_path / f"in.{container}", times, tick, 1 / tick, X264[gop])

    out = rendered_with_a_stop(tmp_path, clip, {**FAST, "filters": filters})

    assert numbers_in(out) == list(times)
