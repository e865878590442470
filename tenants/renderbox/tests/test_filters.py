"""The sender's filter chain: it does what it says, or fails once with FFmpeg's words."""

from __future__ import annotations

from pathlib import Path

import av
import pytest

from attempt import Attempt
from planrun.jobs import Permanent

FAST = {"preset": "ultrafast", "crf": 35}


def refused(folder: Path, clip: Path, filters: str) -> tuple[Attempt, Permanent]:
    attempt = Attempt(folder / "attempt", clip, {**FAST, "filters": filters})
    with pytest.raises(Permanent) as caught:
        attempt.run()
    return attempt, caught.value


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        ("scal=640:360", ""),  # the words differ between versions of FFmpeg
        ("huee", "No such filter: 'huee'"),
        ("scale=640:360:zzz=1", ""),
        ("crop=5000:5000", "Invalid too big or non positive size for width '5000' or height '5000'"),
        ("hue=s=0;", "No such filter: ''"),
        ("split[a][b]", "Simple filtergraph"),
        ("drawtext=text='abc", "a quote (') is opened and never closed"),
        ("hue=s=0\\", "a backslash at the end escapes nothing"),
    ],
)
def test_a_bad_chain_fails_before_any_work(tmp_path: Path, short: Path, filters: str, words: str) -> None:
    attempt, error = refused(tmp_path, short, filters)

    assert error.code == "ffmpeg-bad-filter"
    assert str(error).startswith(f"filters {filters!r}: {words}")
    assert "\n" not in str(error)
    assert not list(attempt.scratch.glob("work/video-*"))
    assert not list(attempt.scratch.glob("work/sound*"))


@pytest.mark.parametrize("filters", ["setpts=0.5*PTS", "setpts=2*PTS", "trim=end=1", "tpad=stop=-1"])
def test_a_chain_that_changes_the_length_is_refused(tmp_path: Path, short: Path, filters: str) -> None:
    _, error = refused(tmp_path, short, filters)

    assert error.code == "ffmpeg-bad-filter"
    assert "they change the clip's length: 3.0 s in, " in str(error)


def test_a_chain_is_applied(tmp_path: Path, short: Path) -> None:
    out = Attempt(tmp_path / "a", short, {**FAST, "filters": "hue=s=0"}).run()

    with av.open(str(out)) as container:
        picture = next(container.decode(video=0))
    for plane in picture.planes[1:]:
        assert all(abs(value - 128) < 6 for value in bytes(plane)[::4001]), "still coloured"


def test_a_chain_may_change_the_shape(tmp_path: Path, short: Path) -> None:
    out = Attempt(tmp_path / "a", short, {**FAST, "filters": "crop=ih:ih"}).run()

    with av.open(str(out)) as container:
        assert (container.streams.video[0].width, container.streams.video[0].height) == (1080, 1080)


def test_a_chain_runs_over_the_whole_clip_not_over_each_segment(tmp_path: Path, long: Path) -> None:
    """A fade-in happens once, though the clip is rendered in several segments."""
    out = Attempt(tmp_path / "a", long, {**FAST, "filters": "fade=in:0:15"}).run()

    with av.open(str(out)) as container:
        light = [sum(bytes(picture.planes[0])[::9973]) for picture in container.decode(video=0)]
    assert light[0] < 0.3 * light[30]
    assert min(light[30:]) > 0.7 * light[30]
