"""Put the pieces together without touching a picture or a sound: one mp4, its index in front.

The picture's times are not copied but counted: picture n of the preview is shown at n / rate, whatever
a segment's own container rounded it to.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

import av
from av.audio.stream import AudioStream
from av.packet import Packet
from av.video.stream import VideoStream

from renderbox.pieces import Pieces

VideoPacket: TypeAlias = "Packet[VideoStream]"
AudioPacket: TypeAlias = "Packet[AudioStream]"


def join(pieces: Pieces, out: Path, *, watch: Callable[[float], None]) -> None:
    """Write the preview.

    Args:
        watch: Called every hundred packets or so with the time reached, in seconds.

    Raises:
        OSError: The disk is full or broken.
    """
    with av.open(str(out), "w", format="mp4", options={"movflags": "+faststart"}) as target:
        with av.open(str(pieces.segments[0].path)) as first:
            video = target.add_stream_from_template(first.streams.video[0])
        tracks: list[Iterator[VideoPacket | AudioPacket]] = [_pictures(pieces, video)]
        if pieces.sound:
            with av.open(str(pieces.sound.path)) as first:
                audio = target.add_stream_from_template(first.streams.audio[0])
            tracks.append(_sound(pieces.sound.path, audio))
        for count, packet in enumerate(heapq.merge(*tracks, key=_time)):
            if count % 128 == 0:
                watch(float(_time(packet)))
            target.mux(packet)


def _time(packet: VideoPacket | AudioPacket) -> Fraction:
    return (packet.dts or 0) * packet.time_base


def _pictures(pieces: Pieces, stream: VideoStream) -> Iterator[VideoPacket]:
    rate = pieces.plan.rate
    for number, piece in enumerate(pieces.segments):
        first = pieces.plan.first(number)
        with av.open(str(piece.path)) as container:
            begin: int | None = None  # the key picture comes first, and nothing is shown before it
            for packet in container.demux(container.streams.video[0]):
                if packet.pts is None or packet.dts is None:  # the end mark
                    continue
                begin = packet.pts if begin is None else begin
                ticks = packet.time_base * rate
                packet.pts = first + round((packet.pts - begin) * ticks)
                packet.dts = first + round((packet.dts - begin) * ticks)
                packet.duration = 1
                packet.time_base = 1 / rate
                packet.stream = stream
                yield packet


def _sound(path: Path, stream: AudioStream) -> Iterator[AudioPacket]:
    with av.open(str(path)) as container:
        for packet in container.demux(container.streams.audio[0]):
            if packet.dts is not None:
                packet.stream = stream
                yield packet
