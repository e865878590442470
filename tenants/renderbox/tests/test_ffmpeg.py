"""Finding FFmpeg, watching a run, and what its ends mean."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from planrun.jobs import Permanent, Transient
from renderbox import ffmpeg
from renderbox.errors import error_of, in_one_line
from renderbox.ffmpeg import End, run


@pytest.fixture(autouse=True)
def looked_up_anew() -> Iterator[None]:
    ffmpeg.find.cache_clear()
    yield
    ffmpeg.find.cache_clear()


def stand_in(path: Path, says: str, *, code: int = 0) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n")
    path.chmod(0o755)
    return path


def end_of(folder: Path, *arguments: str) -> End:
    tool = ffmpeg.find().path
    return run([tool, "-nostdin", "-v", "error", "-y", *arguments], words=folder / "words", watch=lambda _: None)


PICTURE = ("-f", "lavfi", "-i", "testsrc2=s=640x360:r=30:d=20")


def test_the_variable_goes_before_the_path_and_the_path_before_the_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = stand_in(tmp_path / "a/mine", "ffmpeg version named")
    stand_in(tmp_path / "b/ffmpeg", "ffmpeg version on path")

    monkeypatch.setenv("PATH", f"{tmp_path / 'b'}:{os.environ['PATH']}")
    monkeypatch.setenv("PLANRUN_FFMPEG", str(named))
    assert ffmpeg.find().version == "ffmpeg version named"

    ffmpeg.find.cache_clear()
    monkeypatch.delenv("PLANRUN_FFMPEG")
    assert ffmpeg.find().version == "ffmpeg version on path"

    ffmpeg.find.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "imageio" in ffmpeg.find().path
    assert str(ffmpeg.probe_ffmpeg()).startswith("ffmpeg version")


@pytest.mark.parametrize("broken", ["missing", "fails"])
def test_a_machine_whose_ffmpeg_does_not_run_lacks_the_capability(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    tool = tmp_path / "gone" if broken == "missing" else stand_in(tmp_path / "x/ffmpeg", "oh", code=1)
    monkeypatch.setenv("PLANRUN_FFMPEG", str(tool))

    assert ffmpeg.probe_ffmpeg() is False
    with pytest.raises(Transient, match="does not run"):
        ffmpeg.find()


def test_what_the_watcher_raises_ends_the_run_at_once(tmp_path: Path) -> None:
    seen: list[float] = []

    def watch(values: Mapping[str, str]) -> None:
        if int(values.get("frame", "0")) > 0:
            seen.append(time.monotonic())
            raise KeyError("enough")

    command = [ffmpeg.find().path, "-v", "error", "-progress", "pipe:1", "-re", *PICTURE, "-f", "null", "-"]
    with pytest.raises(KeyError):
        run(command, words=tmp_path / "words", watch=watch)

    assert time.monotonic() - seen[0] < 0.5
    with pytest.raises(ChildProcessError):  # nobody is left to wait for
        os.waitpid(-1, os.WNOHANG)


def test_a_full_disk_is_a_bad_moment(tmp_path: Path) -> None:
    error = error_of(end_of(tmp_path, *PICTURE, "-c:v", "libx264", "-preset", "ultrafast", "-f", "h264", "/dev/full"))

    assert isinstance(error, Transient)
    assert error.code == "disk-full"
    assert "No space left on device" in str(error)


def test_a_missing_encoder_is_for_another_machine(tmp_path: Path) -> None:
    error = error_of(end_of(tmp_path, *PICTURE, "-c:v", "libx2644", "-f", "null", "-"))

    assert isinstance(error, Transient)
    assert (error.code, str(error)) == (
        "ffmpeg-lacks-encoder",
        "this FFmpeg lacks an encoder: Unknown encoder 'libx2644'",
    )


@pytest.mark.parametrize("signal_name", ["TERM", "KILL"])
def test_a_killed_ffmpeg_is_a_bad_moment(tmp_path: Path, signal_name: str) -> None:
    killed: list[int] = []

    def watch(values: Mapping[str, str]) -> None:
        if "frame" in values and not killed:
            children = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
            killed.append(int(children))
            os.kill(killed[0], getattr(signal, f"SIG{signal_name}"))

    command = [ffmpeg.find().path, "-v", "error", "-progress", "pipe:1", "-re", *PICTURE, "-f", "null", "-"]
    error = error_of(run(command, words=tmp_path / "words", watch=watch))

    assert isinstance(error, Transient)
    assert error.code == "ffmpeg-killed"


def test_an_unreadable_input_is_the_inputs_fault(tmp_path: Path) -> None:
    (tmp_path / "in.mp4").write_bytes(b"nothing" * 1000)

    error = error_of(end_of(tmp_path, "-i", str(tmp_path / "in.mp4"), "-f", "null", "-"))

    assert isinstance(error, Permanent)
    assert (error.code, str(error)) == ("input-unreadable", "FFmpeg cannot read the input: moov atom not found")


def test_an_end_that_nobody_knows_is_tried_again() -> None:
    error = error_of(End(77, ""))

    assert isinstance(error, Transient)
    assert (error.code, str(error)) == ("ffmpeg-failed", "FFmpeg failed with 77: FFmpeg ended with 77 and said nothing")


def test_words_are_one_short_line_without_addresses() -> None:
    end = End(
        1, "[vf#0:0 @ 0x55c8] [scale @ 0x1] Error initializing filters\n[a @ 0x2] it broke " + "x" * 1000 + "\nmore"
    )

    assert in_one_line(end).startswith("it broke xxx")
    assert len(in_one_line(end)) == 300
