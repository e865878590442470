"""What an unhappy FFmpeg means for the job. The README's table of causes is this module in prose."""

from __future__ import annotations

import errno
import re

from planrun.jobs import Permanent, Transient
from renderbox.ffmpeg import End

_WORDS_CHARACTERS_MAX = 300
_INVALID_DATA = 183  # FFmpeg exits with the low byte of its own negative error number
_DISK_FULL = -errno.ENOSPC & 0xFF
_TERMINATED = 255

_SOURCE = re.compile(r"^(\[[^\]]*\]\s*)+")  # such as "[Parsed_crop_0 @ 0x7f27e4001d00] "
_ECHO = re.compile(
    r"Error (opening (in|out)put|(re)?initializing filters|parsing|muxing|writing trailer)"
    r"|Task finished|Terminating thread|Could not open encoder|Nothing was written|Conversion failed"
    r"|Failed to configure input pad|Last message repeated|Failure occurred"
)


def in_one_line(end: End) -> str:
    """FFmpeg's own words: its first line that is a cause and not the echo of one."""
    lines = [_SOURCE.sub("", line).strip() for line in end.words.splitlines()]
    lines = [line for line in lines if line]
    causes = [line for line in lines if not _ECHO.match(line)]
    said = (causes or lines or [f"FFmpeg ended with {end.code} and said nothing"])[0]
    return said[:_WORDS_CHARACTERS_MAX]


def error_of(end: End) -> Permanent | Transient:
    """The error for a run that ended with anything but 0, whatever it was doing."""
    said = in_one_line(end)
    if end.code < 0 or end.code == _TERMINATED:
        return Transient(f"FFmpeg was killed (status {end.code}): {said}", code="ffmpeg-killed")
    if end.code == _DISK_FULL or "No space left on device" in end.words or "Disk quota exceeded" in end.words:
        return Transient(f"the scratch disk is full: {said}", code="disk-full")
    if "Unknown encoder" in end.words or "Encoder not found" in end.words:
        return Transient(f"this FFmpeg lacks an encoder: {said}", code="ffmpeg-lacks-encoder")
    if end.code == _INVALID_DATA or "Invalid data found" in end.words:
        return Permanent(f"FFmpeg cannot read the input: {said}", code="input-unreadable")
    return Transient(f"FFmpeg failed with {end.code}: {said}", code="ffmpeg-failed")


def bad_filter(filters: str, fault: str) -> Permanent:
    """The sender's chain is at fault: it fails the same way on every machine."""
    return Permanent(f"filters {filters!r}: {fault}", code="ffmpeg-bad-filter")
