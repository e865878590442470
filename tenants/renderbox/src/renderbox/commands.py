"""The FFmpeg commands. The sender's text enters them as one argument, in one place; paths never do."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from pathlib import Path

from renderbox.ffmpeg import FFmpeg
from renderbox.plan import Plan
from renderbox.probe import FORMATS

LONG_SIDE, SHORT_SIDE = 1920, 1080
AUDIO_RATE_HZ = 48_000
_NO_CUT = str(2**31 - 2)

# A picture belongs to the nearest tick of the preview's clock. This share of a tick is put in front,
# so that one lying half-way between two ticks falls to the same side wherever a render starts.
_BIAS_TICKS = Fraction(7, 100)

# 1080p: as large as fits 1920x1080, or 1080x1920 for an upright picture; the shape stays, no bars.
# Sides are rounded to even numbers, at least 2: 4:2:0 colour needs pairs.
_FACTOR = f"min(if(gte(dar,1),{LONG_SIDE},{SHORT_SIDE})/dar,if(gte(dar,1),{SHORT_SIDE},{LONG_SIDE}))"
_SCALE = f"scale=w='max(2,2*round({_FACTOR}*dar/2))':h='max(2,2*round({_FACTOR}/2))',setsar=1"


def _opening(ffmpeg: FFmpeg, plan: Plan, *, seek_s: Fraction | None = None) -> list[str]:
    seek = ["-noaccurate_seek", "-ss", f"{float(seek_s):.6f}"] if seek_s is not None else []
    return [
        *(ffmpeg.path, "-nostdin", "-hide_banner", "-y", "-v", "error", "-xerror"),
        *("-progress", "pipe:1", "-stats_period", "0.2"),
        *("-format_whitelist", FORMATS, "-copyts", *seek, "-i", f"file:{plan.clip.path}"),
        *("-map_metadata", "-1", "-map_chapters", "-1", "-sn", "-dn"),
    ]


def _pictures(plan: Plan, filters: str, *, first: int, seeks: bool) -> list[str]:
    """Options that turn the upload's pictures into those of the preview, from picture `first` on."""
    chain = [f"setpts=PTS-{_seconds(plan.clip.zero_s)}/TB"]
    if plan.clip.interlaced:
        chain.append("bwdif=mode=send_frame:deint=interlaced")
    if filters:
        chain.append(filters)
    begins = first if seeks else 0
    start_s = float((begins - _BIAS_TICKS) / plan.rate)
    chain.append(f"fps=fps={plan.rate.numerator}/{plan.rate.denominator}:start_time={start_s:.6f}")
    # The end is never cut at the planned picture: a chain that lengthens the clip is to be noticed.
    last = plan.pictures + plan.pictures_tolerance + ceil(plan.rate)
    chain.append(f"trim=start_frame={first - begins}:end_frame={last - begins},setpts=PTS-STARTPTS")
    chain.append(f"{_SCALE},format=yuv420p")
    return [
        *("-map", f"0:{plan.clip.video_index}", "-an", "-vf", ",".join(chain)),
        *("-c:v", "libx264", "-preset", plan.settings.preset, "-crf", str(plan.settings.crf), "-pix_fmt", "yuv420p"),
    ]


def one_picture(ffmpeg: FFmpeg, plan: Plan, out: Path, *, filters: str) -> list[str]:
    """Render the first picture only, the way all the others will be: shows faults and the true size."""
    return [
        *_opening(ffmpeg, plan),
        *_pictures(plan, filters, first=0, seeks=False),
        *("-frames:v", "1", "-f", "matroska", f"file:{out}"),
    ]


def segments(ffmpeg: FFmpeg, plan: Plan, folder: Path, *, start: int) -> list[str]:
    """Render the segments from number `start` to the end, each into `segment_file(folder, number)`."""
    first = plan.first(start)
    seek_s = _seek_for(plan, first)
    cuts = [str(plan.first(number) - first) for number in range(start + 1, plan.segments)]
    return [
        *_opening(ffmpeg, plan, seek_s=seek_s),
        *_pictures(plan, plan.settings.filters, first=first, seeks=seek_s is not None),
        *("-forced-idr", "1", "-force_key_frames", f"expr:not(mod(n,{plan.segment_pictures}))"),
        *("-f", "segment", "-segment_format", "mp4", "-reset_timestamps", "1"),
        *("-segment_start_number", str(start), "-segment_frames", ",".join(cuts) or _NO_CUT),
        str(folder / "video-%05d.mp4"),
    ]


def segment_file(folder: Path, number: int) -> Path:
    """Where `segments` leaves segment `number`."""
    return folder / f"video-{number:05d}.mp4"


def sound(ffmpeg: FFmpeg, plan: Plan, out: Path) -> list[str]:
    """Encode the whole sound: gaps are filled with silence, so that it stays beside its picture."""
    chain = f"asetpts=PTS-{_seconds(plan.clip.zero_s)}/TB,aresample=async=1:first_pts=0"
    return [
        *_opening(ffmpeg, plan),
        *("-map", f"0:{plan.clip.audio_index}", "-vn", "-af", chain),
        *("-c:a", "aac", "-b:a", "160k", "-ar", str(AUDIO_RATE_HZ), "-ac", str(min(plan.clip.audio_channels, 2))),
        *("-f", "mp4", f"file:{out}"),
    ]


def _seek_for(plan: Plan, first: int) -> Fraction | None:
    """From where to read on when the render goes on at picture `first`; None: from the beginning.

    Without a chain, two key pictures earlier is enough. A sender's chain may remember what came
    before (a fade, a counter), so with one everything is decoded again; only encoding is saved.
    """
    if first == 0 or plan.settings.filters:
        return None
    wanted_s = plan.clip.zero_s + first / plan.rate
    earlier = [key for key in plan.clip.keys_s if key < wanted_s]
    return earlier[-2] if len(earlier) >= 2 and plan.clip.can_seek else None


def _seconds(time: Fraction) -> str:
    return f"({time.numerator}/{time.denominator})"
