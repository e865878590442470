"""The FFmpeg program: where it is, and how one run of it is watched."""

from __future__ import annotations

import functools
import os
import select
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import imageio_ffmpeg  # type: ignore[import-untyped]

from planrun.jobs import Transient, capability

VARIABLE = "PLANRUN_FFMPEG"
_WATCH_S = 0.05
_WORDS_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class FFmpeg:
    """One FFmpeg on this machine. Its version is part of a plan: segments of two encoders are not mixed."""

    path: str
    version: str


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended.

    Attributes:
        code: Exit status; negative: killed by that signal.
        words: What it wrote to standard error.
    """

    code: int
    words: str


@functools.cache
def find() -> FFmpeg:
    """The FFmpeg to use: `PLANRUN_FFMPEG`, else the one on PATH, else the one that the wheel carries.

    Raises:
        Transient: `ffmpeg-missing`: none of the three runs here; another machine may have one.
    """
    path = os.environ.get(VARIABLE) or shutil.which("ffmpeg") or _from_wheel()
    if not path:
        raise Transient(f"no FFmpeg on this machine: put it on PATH or set {VARIABLE}", code="ffmpeg-missing")
    try:
        done = subprocess.run(
            [path, "-version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Transient(f"{path} does not run: {error}", code="ffmpeg-missing") from None
    return FFmpeg(path, done.stdout.partition("\n")[0].strip())


def _from_wheel() -> str:
    try:
        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except RuntimeError:  # no binary for this platform
        return ""


@capability("ffmpeg")
def probe_ffmpeg() -> str | bool:
    """Says to the worker whether this machine has FFmpeg, and which."""
    try:
        return find().version
    except Transient:
        return False


def run(command: Sequence[str], *, words: Path, watch: Callable[[Mapping[str, str]], None]) -> End:
    """Run FFmpeg to its end; it never outlives this call.

    Args:
        command: The whole command, with `-progress pipe:1` in it.
        words: File for its standard error.
        watch: Called at least every 50 ms with the newest values of its progress report (empty at
            first). Whatever it raises kills the run and goes on to the caller.
    """
    with words.open("wb") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
        try:
            _follow(process, watch)
            code = process.wait()
        finally:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()
    with words.open("rb") as errors:
        return End(code, errors.read(_WORDS_BYTES_MAX).decode(errors="replace"))


def _follow(process: subprocess.Popen[bytes], watch: Callable[[Mapping[str, str]], None]) -> None:
    assert process.stdout
    pipe = process.stdout.fileno()
    values: dict[str, str] = {}
    rest = b""
    while True:
        readable, _, _ = select.select([pipe], [], [], _WATCH_S)
        if readable:
            read = os.read(pipe, 64 * 1024)
            if not read:
                return
            *lines, rest = (rest + read).split(b"\n")
            for line in lines:
                name, _, value = line.decode(errors="replace").partition("=")
                values[name] = value.strip()
        watch(values)
