"""What an upload holds, found by reading every packet of it once.

A header can lie: a file that was cut short still announces its full length. So the streams are
chosen by type and disposition, and their true ends are read off the packets, before any work.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.stream import Disposition, Stream
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from planrun.jobs import Permanent

# Containers of recordings. Playlists and scripts (hls, dash, concat …) are left out: they would make
# an upload open other files of this machine or of its network.
FORMATS = (
    "mov,mp4,matroska,webm,avi,mpegts,mpeg,mpegvideo,flv,asf,ogg,gif,apng,mxf,nut,ivf,rm,dv,wav,mp3,aac,flac,"
    "h264,hevc,m4v,av1,obu,yuv4mpegpipe,gxf,wtv,srt,ass,webvtt"
)
TRUNCATION_TOLERANCE_S = 0.5
_TIME_US = Fraction(1, 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """An upload that can be rendered. All times are seconds on the upload's own clock.

    Attributes:
        video_index: Stream index of the picture; never a cover picture.
        audio_index: Stream index of the sound; None: the clip is silent.
        zero_s: Where the preview begins: the first sound or picture, whichever is earlier.
        video_end_s: End of the last picture.
        audio_end_s: End of the sound; `zero_s` for a silent clip.
        average_rate: Pictures per second over the whole clip.
        gap_s: The usual time between two pictures (the median).
        nominal_rate: Pictures per second as the container says; None: it does not.
        keys_s: Times of the key pictures, ascending.
        can_seek: The container has an index that leads to a key picture exactly.
    """

    path: Path
    sha256: str
    video_index: int
    audio_index: int | None
    audio_channels: int
    interlaced: bool
    average_rate: Fraction
    zero_s: Fraction
    video_end_s: Fraction
    audio_end_s: Fraction
    gap_s: Fraction
    nominal_rate: Fraction | None
    keys_s: tuple[Fraction, ...]
    can_seek: bool


def probe(path: Path, *, watch: Callable[[], None]) -> Clip:
    """Read an upload.

    Args:
        watch: Called every few thousand packets; whatever it raises goes on to the caller.

    Raises:
        Permanent: `input-unreadable`, `input-no-video`, or `input-truncated`.
    """
    if path.stat().st_size == 0:
        raise Permanent("the input is empty (0 bytes)", code="input-unreadable")
    with path.open("rb") as upload:
        sha256 = hashlib.file_digest(upload, "sha256").hexdigest()
    try:
        with av.open(str(path), options={"format_whitelist": FORMATS}) as container:
            video = _video_of(container)
            audio = _audio_of(container)
            interlaced = _first_picture(path, video.index).interlaced_frame
            tracks = _read(container, watch)
            for stream in (video, audio):
                if stream is not None:
                    _refuse_truncated(container, stream, tracks)
            can_seek = not {"mov", "matroska"}.isdisjoint(container.format.name.split(","))
            return _clip(path, sha256, video, audio, tracks, interlaced=interlaced, can_seek=can_seek)
    except av.error.ArgumentError:
        raise Permanent("the input is not a video file of a known format", code="input-unreadable") from None
    except av.error.FFmpegError as error:
        raise Permanent(f"the input cannot be read: {error.strerror}", code="input-unreadable") from None


def _video_of(container: InputContainer) -> VideoStream:
    """The picture: not a cover, the default one before others, the largest before smaller ones."""
    candidates = [
        stream
        for stream in container.streams.video
        if not stream.disposition & Disposition.attached_pic and _can_decode(stream)
    ]
    if not candidates:
        found = ", ".join(_described(stream) for stream in container.streams) or "nothing"
        raise Permanent(f"the input holds no moving picture, only {found}", code="input-no-video")
    return max(candidates, key=lambda stream: (_is_default(stream), stream.width * stream.height, -stream.index))


def _audio_of(container: InputContainer) -> AudioStream | None:
    """The sound: the default track before others, the first before later ones."""
    candidates = [stream for stream in container.streams.audio if _can_decode(stream)]
    if container.streams.audio and not candidates:
        raise Permanent("the input's sound is in a codec that FFmpeg does not know", code="input-unreadable")
    return max(candidates, key=lambda stream: (_is_default(stream), -stream.index), default=None)


def _is_default(stream: Stream) -> bool:
    return bool(stream.disposition & Disposition.default)


def _can_decode(stream: VideoStream | AudioStream) -> bool:
    # PyAV leaves the context out for a codec without a decoder, whatever its type stubs say.
    return getattr(stream, "codec_context", None) is not None


def _described(stream: Stream) -> str:
    return "a cover picture" if stream.disposition & Disposition.attached_pic else f"{stream.type}"


def _first_picture(path: Path, index: int) -> VideoFrame:
    with av.open(str(path), options={"format_whitelist": FORMATS}) as container:
        for picture in container.decode(container.streams[index]):
            if isinstance(picture, VideoFrame):
                return picture
    raise Permanent("the input holds no picture that can be decoded", code="input-unreadable")


@dataclass(slots=True)
class _Track:
    """Packets of one stream, in its own time base. `times` are presentation times, in file order."""

    time_base: Fraction
    times: array[int] = field(default_factory=lambda: array("q"))
    keys: array[int] = field(default_factory=lambda: array("q"))
    packets: int = 0
    end: int = 0
    is_cut: bool = False  # the file ends within a packet

    @property
    def end_s(self) -> Fraction:
        return self.end * self.time_base


def _read(container: InputContainer, watch: Callable[[], None]) -> dict[int, _Track]:
    tracks: dict[int, _Track] = {}
    count = 0
    for packet in container.demux():
        count += 1
        if count % 4096 == 0:
            watch()
        if not packet.size or packet.is_discard:
            continue
        track = tracks.get(packet.stream_index)
        if track is None:
            track = tracks[packet.stream_index] = _Track(packet.time_base)
        if packet.is_corrupt:
            track.is_cut = True
            continue
        track.packets += 1
        time = packet.pts if packet.pts is not None else packet.dts
        if time is None:
            continue
        track.times.append(time)
        track.end = max(track.end, time + (packet.duration or 0))
        if packet.is_keyframe:
            track.keys.append(time)
    return tracks


def _refuse_truncated(container: InputContainer, stream: Stream, tracks: dict[int, _Track]) -> None:
    """Compare what the header announces with what is there.

    Containers that carry no length of their own (such as MPEG-TS) are taken as they are: their end is
    wherever they end.
    """
    names = container.format.name.split(",")
    if stream.duration and stream.time_base and {"mov", "avi"} & set(names):
        expected = (stream.duration + (stream.start_time or 0)) * stream.time_base
        found = tracks[stream.index].end_s if stream.index in tracks else Fraction(0)
    elif container.duration and {"matroska", "flv", "asf", "wav"} & set(names):
        expected = container.duration * _TIME_US
        found = max((track.end_s for track in tracks.values()), default=Fraction(0))
    else:
        return
    is_cut = stream.index in tracks and tracks[stream.index].is_cut
    if is_cut or found < expected - Fraction(TRUNCATION_TOLERANCE_S):
        raise Permanent(
            f"input truncated: its header announces {float(expected):.2f} s of {stream.type}, "
            f"the file ends after {float(found):.2f} s",
            code="input-truncated",
        )


def _clip(
    path: Path,
    sha256: str,
    video: VideoStream,
    audio: AudioStream | None,
    tracks: dict[int, _Track],
    *,
    interlaced: bool,
    can_seek: bool,
) -> Clip:
    picture = tracks[video.index]
    sound = tracks.get(audio.index) if audio is not None else None
    rate = video.guessed_rate or video.average_rate
    times = sorted(picture.times)
    if not times:  # a bare stream without any timestamp: FFmpeg counts the pictures, so do we
        tick = 1 / Fraction(rate or 25)
        times, unit = list(range(picture.packets)), tick
    else:
        unit = picture.time_base
    gaps = sorted(later - earlier for earlier, later in pairwise(times) if later > earlier)
    gap = gaps[len(gaps) // 2] * unit if gaps else 1 / Fraction(rate or 25)
    zero = first = times[0] * unit
    end = max(picture.end_s, times[-1] * unit + gap)
    if sound is not None and sound.times:
        zero = min(zero, max(sound.times[0] * sound.time_base, Fraction(0)))  # below 0: the codec's run-in
    return Clip(
        path=path,
        sha256=sha256,
        video_index=video.index,
        audio_index=audio.index if audio is not None and sound is not None else None,
        audio_channels=audio.channels if audio is not None else 0,
        interlaced=interlaced,
        average_rate=picture.packets / (end - first),
        zero_s=zero,
        video_end_s=end,
        audio_end_s=sound.end_s if sound is not None else zero,
        gap_s=gap,
        nominal_rate=Fraction(rate) if rate else None,
        keys_s=tuple(time * unit for time in sorted(picture.keys)),
        can_seek=can_seek,
    )
