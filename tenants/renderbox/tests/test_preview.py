"""The job as a whole: progress, checkpoints, stopping, sound beside its picture."""

from __future__ import annotations

import os
import subprocess
import time
from array import array
from itertools import pairwise
from pathlib import Path

import av
import pytest

from attempt import Attempt
from media import make
from planrun.jobs import Permanent, Stopped, Transient
from renderbox import ffmpeg

FAST = {"preset": "ultrafast", "crf": 35}
SLOW = {"preset": "slow", "crf": 20}


def test_progress_only_grows_and_says_where_it_is(tmp_path: Path, long: Path) -> None:
    attempt = Attempt(tmp_path / "a", long, FAST)

    attempt.run()

    shares = [share for share, _ in attempt.reports]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 0.99)
    assert "segment 5 of 5, 10 s of 10 s" in [message for _, message in attempt.reports]


def test_the_index_stands_in_front(tmp_path: Path, short: Path) -> None:
    content = Attempt(tmp_path / "a", short, FAST).run().read_bytes()

    assert 0 < content.index(b"moov") < content.index(b"mdat")


def test_a_long_render_leaves_checkpoints_that_grow(tmp_path: Path, long: Path) -> None:
    attempt = Attempt(tmp_path / "a", long, SLOW)

    attempt.run()

    finished = [len(list(checkpoint.glob("video-*"))) for checkpoint in attempt.checkpoints]
    assert finished
    assert all(earlier < later for earlier, later in pairwise([0, *finished]))


def test_a_stop_is_answered_at_once_and_costs_the_running_segment_only(tmp_path: Path, long: Path) -> None:
    asked: list[float] = []

    def in_the_second_segment(attempt: Attempt) -> bool:
        if (attempt.scratch / "work/video-00001.mp4").exists() and not asked:
            asked.append(time.monotonic())
        return bool(asked)

    attempt = Attempt(tmp_path / "1", long, SLOW, stop_when=in_the_second_segment)
    with pytest.raises(Stopped):
        attempt.run()

    assert time.monotonic() - asked[0] < 0.5
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    left = sorted(file.name for file in attempt.checkpoints[-1].iterdir())
    assert left == ["pieces.json", "sound.m4a", "video-00000.mp4"]


def test_a_stop_while_joining_keeps_every_segment(tmp_path: Path, short: Path) -> None:
    def is_joining(attempt: Attempt) -> bool:
        return attempt.reports[-1][1] == "joining the segments"

    joining = Attempt(tmp_path / "1", short, FAST, stop_when=is_joining)
    with pytest.raises(Stopped):
        joining.run()
    second = Attempt(tmp_path / "2", short, FAST, checkpoint=joining.checkpoints[-1])

    second.run()

    assert not list((second.scratch / "work").glob("video-*"))
    assert not list((second.scratch / "work").glob("sound*"))


def test_thirty_stops_in_a_row_still_end_with_the_whole_clip(tmp_path: Path, long: Path) -> None:
    """Each attempt is stopped as soon as it has anything new; the last one finds all that is needed."""
    checkpoint: Path | None = None
    for number in range(30):
        had = len(list(checkpoint.glob("video-*"))) if checkpoint else 0
        attempt = Attempt(
            tmp_path / str(number),
            long,
            FAST,
            checkpoint=checkpoint,
            stop_when=lambda a, had=had: (a.scratch / f"work/video-{had + 1:05d}.mp4").exists(),  # type: ignore[misc]
        )
        try:
            out = attempt.run()
            break
        except Stopped:
            checkpoint = attempt.checkpoints[-1]
    with av.open(str(out)) as container:
        assert container.streams.video[0].frames == 300


@pytest.mark.parametrize("late", ["nothing", "sound", "picture"])
@pytest.mark.parametrize("name", ["in.mp4", "in.mkv", "in.ts"])
def test_a_flash_and_its_beep_stay_together(tmp_path: Path, name: str, late: str) -> None:
    """Within 45 ms, the least that people notice, also if one of the two begins later."""
    picture = ("-f", "lavfi", "-i", "color=black:s=320x180:r=25:d=6,drawbox=t=fill:c=white:enable='between(t,4,4.1)'")
    sound = ("-f", "lavfi", "-i", "aevalsrc='if(between(t,4,4.1),sin(2*PI*1000*t),0)':d=6:s=48000")
    offset = {"nothing": (0.0, 0.0), "sound": (0.0, 0.7), "picture": (0.7, 0.0)}[late]
    clip = make(
        tmp_path / name,
        *("-itsoffset", str(offset[0]), *picture, "-itsoffset", str(offset[1]), *sound),
        *("-map", "0", "-map", "1", "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac"),
    )

    out = Attempt(tmp_path / "a", clip, FAST).run()

    assert beep_s(out) - flash_s(out) == pytest.approx(offset[1] - offset[0], abs=0.045)


def flash_s(clip: Path) -> float:
    with av.open(str(clip)) as container:
        for picture in container.decode(video=0):
            if bytes(picture.planes[0])[1000] > 128 and picture.time is not None:
                return picture.time
    raise AssertionError("no flash")


def beep_s(clip: Path) -> float:
    command = [ffmpeg.find().path, "-v", "error", "-i", str(clip), "-map", "0:a", "-f", "s16le", "-ac", "1", "-"]
    heard = array("h", subprocess.run(command, check=True, capture_output=True).stdout)
    return next(n for n, value in enumerate(heard) if abs(value) > 3000) / 48000


def test_an_ffmpeg_that_lies_about_its_success_is_not_believed(
    tmp_path: Path, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It exits with 0 and leaves half the picture: the job does not end as finished."""
    real = ffmpeg.find()
    liar = tmp_path / "liar"
    liar.write_text(
        f'#!/bin/sh\ncase "$*" in *"-f segment"*) set -- $(echo "$*" | sed "s/-f segment/-t 1 -f segment/");; esac\n'
        f'exec {real.path} "$@"\n'
    )
    liar.chmod(0o755)
    ffmpeg.find.cache_clear()
    monkeypatch.setenv("PLANRUN_FFMPEG", str(liar))
    try:
        with pytest.raises(Permanent) as caught:
            Attempt(tmp_path / "a", short, FAST).run()
    finally:
        ffmpeg.find.cache_clear()

    assert str(caught.value) == "input truncated: 3.0 s of pictures expected, 1.0 s could be rendered"


def test_a_full_scratch_disk_while_joining_is_a_bad_moment(
    tmp_path: Path, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("renderbox.jobs.join", full)

    with pytest.raises(Transient) as caught:
        Attempt(tmp_path / "a", short, FAST).run()

    assert caught.value.code == "disk-full"
