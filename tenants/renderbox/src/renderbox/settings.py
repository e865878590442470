"""What a sender may set, checked before anything is read or run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planrun.jobs import Permanent

PRESETS = (
    "ultrafast",
    "superfast",
    "veryfast",
    "faster",
    "fast",
    "medium",
    "slow",
    "slower",
    "veryslow",
)
CRF_MAX = 51
FILTERS_CHARACTERS_MAX = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Attributes:
    filters: An FFmpeg video filter chain, one picture in and one out, such as `hue=s=0`; empty: none.
    crf: x264's quality, 0 (lossless) to 51 (worst).
    preset: x264's speed: slower makes smaller files.
    """

    filters: str = ""
    crf: int = 23
    preset: str = "fast"


def settings_from(params: Mapping[str, Any]) -> Settings:
    """Read a job's params.

    Raises:
        Permanent: An unknown name or a wrong value (`bad-params`), or a chain that cannot be parsed
            (`ffmpeg-bad-filter`).
    """
    known = Settings.__slots__
    unknown = sorted(set(params) - set(known))
    if unknown:
        raise _bad(f"unknown params: {', '.join(unknown)}; preview knows {', '.join(sorted(known))}")
    settings = Settings(**params)
    if not isinstance(settings.filters, str) or len(settings.filters) > FILTERS_CHARACTERS_MAX:
        raise _bad(f"filters must be a text of at most {FILTERS_CHARACTERS_MAX} characters")
    if type(settings.crf) is not int or not 0 <= settings.crf <= CRF_MAX:
        raise _bad(f"crf must be a whole number from 0 to {CRF_MAX}, not {settings.crf!r}")
    if settings.preset not in PRESETS:
        raise _bad(f"preset must be one of {', '.join(PRESETS)}, not {settings.preset!r}")
    fault = _open_end(settings.filters)
    if fault:
        raise Permanent(f"filters {settings.filters!r}: {fault}", code="ffmpeg-bad-filter")
    return settings


def _bad(message: str) -> Permanent:
    return Permanent(message, code="bad-params")


def _open_end(chain: str) -> str:
    """Why this chain would swallow what is put behind it; empty if it does not.

    FFmpeg takes an unclosed quote to the end of the whole graph without a word, and our own scaling
    stands behind the sender's chain.
    """
    if "\0" in chain:
        return "a zero byte cannot be part of a filter chain"
    quoted = escaped = False
    for character in chain:
        if escaped:
            escaped = False
        elif character == "'":
            quoted = not quoted
        elif character == "\\" and not quoted:
            escaped = True
    if quoted:
        return "a quote (') is opened and never closed"
    return "a backslash at the end escapes nothing" if escaped else ""
