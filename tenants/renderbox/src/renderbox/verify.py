"""Look at the finished preview as a player would, before it counts.

Exit status 0, an existing file and "100 %" prove nothing: lengths, streams and pictures are compared
with the plan.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
from av.container import InputContainer

from planrun.jobs import Permanent, Transient
from renderbox.commands import LONG_SIDE, SHORT_SIDE
from renderbox.errors import bad_filter
from renderbox.plan import Plan

AUDIO_TOLERANCE_S = 0.5
_SIDE_TOLERANCE = 2


def verify(preview: Path, plan: Plan, *, size: tuple[int, int]) -> None:
    """Accept the preview or say what is wrong with it.

    Raises:
        Permanent: It is shorter or longer than the clip: `input-truncated`, or `ffmpeg-bad-filter` if the
            sender's chain did it.
        Transient: `output-broken`: it does not play as it should.
    """
    try:
        with av.open(str(preview)) as container:
            _check_streams(container, plan, size)
            _check_length(_pictures_in(container), plan)
            for share in (Fraction(0), Fraction(1, 2), Fraction(1)):
                _check_plays(container, plan, share)
    except av.error.FFmpegError as error:
        raise _broken(f"it cannot be read: {error.strerror}") from None


def _check_streams(container: InputContainer, plan: Plan, size: tuple[int, int]) -> None:
    kinds = [stream.type for stream in container.streams]
    wanted = ["video"] if plan.clip.audio_index is None else ["video", "audio"]
    if kinds != wanted:
        raise _broken(f"it holds {kinds}, not {wanted}")
    video = container.streams.video[0]
    if (video.codec_context.name, video.codec_context.pix_fmt) != ("h264", "yuv420p"):
        raise _broken(f"its picture is {video.codec_context.name} {video.codec_context.pix_fmt}, not h264 yuv420p")
    if (video.width, video.height) != size or not is_1080p(*size):
        raise _broken(f"its picture is {video.width}x{video.height}, planned was {size[0]}x{size[1]}")
    for audio in container.streams.audio:
        if audio.codec_context.name != "aac":
            raise _broken(f"its sound is {audio.codec_context.name}, not aac")
        length_s = float((audio.duration or 0) * (audio.time_base or 0))
        if abs(length_s - plan.audio_s) > AUDIO_TOLERANCE_S:
            raise _broken(f"its sound lasts {length_s:.2f} s, the input's {plan.audio_s:.2f} s")


def is_1080p(width: int, height: int) -> bool:
    """Even sides, and as large as fits the box of 1920x1080 (upright: 1080x1920)."""
    long, short = max(width, height), min(width, height)
    fits = long <= LONG_SIDE and short <= SHORT_SIDE
    touches = long >= LONG_SIDE - _SIDE_TOLERANCE or short >= SHORT_SIDE - _SIDE_TOLERANCE
    return fits and touches and width % 2 == 0 and height % 2 == 0


def _pictures_in(container: InputContainer) -> int:
    return sum(1 for packet in container.demux(video=0) if packet.size)


def _check_length(pictures: int, plan: Plan) -> None:
    if abs(pictures - plan.pictures) <= plan.pictures_tolerance:
        return
    found_s = float(pictures / plan.rate)
    if plan.settings.filters:
        fault = f"they change the clip's length: {plan.video_s:.1f} s in, at least {found_s:.1f} s out"
        raise bad_filter(plan.settings.filters, fault if pictures > plan.pictures else fault.replace("at least ", ""))
    raise Permanent(
        f"input truncated: {plan.video_s:.1f} s of pictures expected, {found_s:.1f} s could be rendered",
        code="input-truncated",
    )


def _check_plays(container: InputContainer, plan: Plan, share: Fraction) -> None:
    """Decode at a place of the preview: at its end, to the very last picture."""
    stream = container.streams.video[0]
    assert stream.time_base
    last = max(0, plan.pictures - 1 - plan.pictures_tolerance)
    wanted_s = share * last / plan.rate
    container.seek(int(wanted_s / stream.time_base), stream=stream)
    for picture in container.decode(video=0):
        if picture.pts is not None and picture.pts * stream.time_base >= wanted_s:
            return
    raise _broken(f"no picture can be decoded at {float(wanted_s):.1f} s")


def _broken(fault: str) -> Transient:
    return Transient(f"the rendered preview is broken: {fault}", code="output-broken")
