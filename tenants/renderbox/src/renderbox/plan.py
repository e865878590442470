"""The whole render as numbers: rate, pictures, segments. Equal plans make interchangeable segments.

The preview's pictures are counted from 0 at a fixed rate; segment k holds the pictures
`first(k)` to `first(k + 1) - 1`. Only the last one may differ in length, by the tolerance.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from fractions import Fraction
from math import ceil

from renderbox.ffmpeg import FFmpeg
from renderbox.probe import Clip
from renderbox.settings import Settings

LAYOUT = "segments-1"
RATE_MAX = 60
RATE_MIN = 1
SEGMENT_S_MIN, SEGMENT_S_MAX = 2, 10
SEGMENT_PICTURES_MIN = 12
_SEGMENTS_WANTED = 12
_STEADY = Fraction(1, 100)  # a nominal rate so close to the packets' own is taken as exact
_STANDARD_RATES = (24, 25, 30, 50, 60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Attributes:
    rate: Pictures per second of the preview.
    pictures: How many it should have.
    segment_pictures: How many stand in each segment but the last.
    """

    clip: Clip
    settings: Settings
    encoder: str
    rate: Fraction
    pictures: int
    segment_pictures: int

    @property
    def segments(self) -> int:
        """How many; a rest shorter than half a segment belongs to the last one."""
        return max(1, round(self.pictures / self.segment_pictures))

    @property
    def video_s(self) -> float:
        return float(self.pictures / self.rate)

    @property
    def audio_s(self) -> float:
        """Length of the sound in the preview; 0: silent."""
        return max(0.0, float(self.clip.audio_end_s - self.clip.zero_s)) if self.clip.audio_index is not None else 0.0

    @property
    def pictures_tolerance(self) -> int:
        """How many pictures more or fewer are still the whole clip: 2, and 5 % of it up to half a second."""
        return 2 + int(min(Fraction(self.pictures, 20), self.rate / 2))

    def first(self, segment: int) -> int:
        """The first picture of a segment; of segment `segments`: the end."""
        return segment * self.segment_pictures if segment < self.segments else self.pictures

    def digest(self) -> str:
        """Names this plan. Another upload, setting, FFmpeg or cutting gives another digest."""
        facts = {
            "layout": LAYOUT,
            "input": self.clip.sha256,
            "settings": asdict(self.settings),
            "encoder": self.encoder,
            "streams": [self.clip.video_index, self.clip.audio_index],
            "table": [str(self.clip.zero_s), str(self.rate), self.pictures, self.segment_pictures],
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def plan_for(clip: Clip, settings: Settings, ffmpeg: FFmpeg) -> Plan:
    """Lay out the render of one clip."""
    rate = rate_for(clip)
    pictures = max(1, round((clip.video_end_s - clip.zero_s) * rate))
    segment_s = min(max(pictures / rate / _SEGMENTS_WANTED, Fraction(SEGMENT_S_MIN)), Fraction(SEGMENT_S_MAX))
    return Plan(
        clip=clip,
        settings=settings,
        encoder=ffmpeg.version,
        rate=rate,
        pictures=pictures,
        segment_pictures=max(SEGMENT_PICTURES_MIN, round(segment_s * rate)),
    )


def rate_for(clip: Clip) -> Fraction:
    """The preview's rate: the clip's own, between 1 and 60 pictures per second.

    A faster clip is divided by a whole number (120 becomes 60, 144 becomes 48), so that pictures are
    left out evenly. A clip of varying rate gets the next standard rate that its usual gap fits in.
    """
    rate = clip.nominal_rate
    if rate is None or abs(rate / clip.average_rate - 1) > _STEADY:
        usual = (1 - 2 * _STEADY) / clip.gap_s
        rate = Fraction(next((standard for standard in _STANDARD_RATES if standard >= usual), RATE_MAX))
    return max(rate / ceil(rate / RATE_MAX), Fraction(RATE_MIN))
