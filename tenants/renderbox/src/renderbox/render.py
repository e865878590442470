"""One attempt at a plan: sound first, then segment after segment, with checkpoints on the way.

FFmpeg runs once per attempt and cuts the segments itself: filters see the clip as one, and there is
no joint at which a picture could get lost or be doubled. A segment is finished when the next begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import av

from planrun.jobs import JobContext, Stopped
from renderbox import commands
from renderbox.errors import bad_filter, error_of, in_one_line
from renderbox.ffmpeg import End, FFmpeg, run
from renderbox.pieces import CHECKPOINT, Intervals, Piece, Pieces
from renderbox.plan import Plan

# Shares of the progress bar. Sound is quick; joining copies bytes.
PROBED, SOUND_DONE, PICTURES_DONE = 0.02, 0.07, 0.96


class _StopAsked(Exception):
    """FFmpeg was ended because the job is asked to stop."""


class Render:
    """What is being made, and what is finished of it.

    Args:
        folder: Existing folder of its own, inside the job's scratch.
        pieces: What an earlier attempt finished of the same plan.
    """

    def __init__(self, j: JobContext, ffmpeg: FFmpeg, plan: Plan, folder: Path, pieces: Pieces) -> None:
        self._j = j
        self._ffmpeg = ffmpeg
        self._plan = plan
        self._folder = folder
        self._words = folder / "ffmpeg.txt"
        self._intervals = Intervals(time.monotonic())
        self._safe = len(pieces.segments)
        self.pieces = pieces

    def try_out(self) -> tuple[int, int]:
        """Render one picture. Returns the preview's width and height.

        Raises:
            Permanent: `ffmpeg-bad-filter` if it works without the sender's filters, else as `error_of`.
        """
        out = self._folder / "first.mkv"
        filters = self._plan.settings.filters
        end = self._run(commands.one_picture(self._ffmpeg, self._plan, out, filters=filters))
        if end.code > 0 and filters:
            without = self._run(commands.one_picture(self._ffmpeg, self._plan, out, filters=""))
            if without.code == 0:
                raise bad_filter(filters, in_one_line(end))
        if end.code != 0:
            raise error_of(end)
        return self._size_of(out)

    def encode_sound(self) -> None:
        """Encode the sound, unless the clip is silent or it is already there.

        Raises:
            Permanent, Transient: As `error_of`.
        """
        plan = self._plan
        if plan.clip.audio_index is None or self.pieces.sound:
            return
        out = self._folder / "sound.m4a"

        def report(values: Mapping[str, str]) -> None:
            done_s = min(_number(values, "out_time_us") / 1e6, plan.audio_s)
            share = done_s / plan.audio_s if plan.audio_s else 1
            self._j.progress(PROBED + (SOUND_DONE - PROBED) * share, f"sound, {done_s:.0f} s of {plan.audio_s:.0f} s")

        end = self._run(commands.sound(self._ffmpeg, plan, out), report)
        if end.code != 0:
            raise error_of(end)
        self.pieces.sound = Piece.of(out)

    def encode_pictures(self) -> None:
        """Encode the segments that are still missing.

        Raises:
            Permanent, Transient: As `error_of`.
        """
        plan = self._plan
        start = len(self.pieces.segments)
        if start >= plan.segments:
            return

        def report(values: Mapping[str, str]) -> None:
            self._take_finished()
            self._report(plan.first(start) + _number(values, "frame"))
            if len(self.pieces.segments) > self._safe and self._intervals.is_due(time.monotonic()):
                self._checkpoint()

        end = self._run(commands.segments(self._ffmpeg, plan, self._folder, start=start), report)
        if end.code != 0:
            raise error_of(end)
        self._take_finished(ended=True)

    def stop_if_asked(self) -> None:
        """Leave a checkpoint and end here if the job is asked to stop."""
        if self._j.stopping:
            self._checkpoint()

    def _take_finished(self, *, ended: bool = False) -> None:
        while True:
            number = len(self.pieces.segments)
            file = commands.segment_file(self._folder, number)
            finished = commands.segment_file(self._folder, number + 1).exists() or (ended and file.exists())
            if not finished:
                return
            self.pieces.segments.append(Piece.of(file))

    def _report(self, done: int) -> None:
        plan = self._plan
        done = min(done, plan.pictures)
        segment = min(done // plan.segment_pictures + 1, plan.segments)
        at_s = float(done / plan.rate)
        self._j.progress(
            SOUND_DONE + (PICTURES_DONE - SOUND_DONE) * done / plan.pictures,
            f"segment {segment} of {plan.segments}, {at_s:.0f} s of {plan.video_s:.0f} s",
        )

    def _checkpoint(self) -> None:
        from_s = time.monotonic()
        self.pieces.lay_out(self._j.scratch / CHECKPOINT)
        self._j.progress.checkpoint()
        self._intervals.taken(from_s=from_s, to_s=time.monotonic())
        self._safe = len(self.pieces.segments)

    def _run(self, command: list[str], report: Callable[[Mapping[str, str]], None] | None = None) -> End:
        """Run FFmpeg; if the job is asked to stop, end it first and then leave the checkpoint."""

        def watch(values: Mapping[str, str]) -> None:
            if self._j.stopping:
                raise _StopAsked
            if report:
                report(values)

        try:
            return run(command, words=self._words, watch=watch)
        except _StopAsked:
            self._take_finished()
            self._checkpoint()
            raise Stopped from None

    @staticmethod
    def _size_of(file: Path) -> tuple[int, int]:
        with av.open(str(file)) as container:
            stream = container.streams.video[0]
            return stream.width, stream.height


def _number(values: Mapping[str, str], name: str) -> int:
    """A count out of FFmpeg's progress report; 0 while it says `N/A`."""
    text = values.get(name, "")
    return max(0, int(text)) if text.lstrip("-").isdigit() else 0
