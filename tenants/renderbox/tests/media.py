"""Clips made for the tests. A counted clip carries its picture's number in the picture, as bars."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path

import av
from av.video.frame import VideoFrame

from renderbox import ffmpeg

BITS = 12
WIDTH, HEIGHT = 192, 108


def make(out: Path, *arguments: str | Path) -> Path:
    """Run FFmpeg with these arguments and this output."""
    command = [ffmpeg.find().path, "-nostdin", "-v", "error", "-y", *map(str, arguments), str(out)]
    subprocess.run(command, check=True)
    return out


def bars(out: Path, *, seconds: float = 3, size: str = "640x360", rate: str = "30", codec: Sequence[str] = ()) -> Path:
    """A moving test picture with a tone."""
    return make(
        out,
        *("-f", "lavfi", "-i", f"testsrc2=s={size}:r={rate}:d={seconds}"),
        *("-f", "lavfi", "-i", f"sine=440:d={seconds}"),
        *("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac", "-shortest", *codec),
    )


def turned(out: Path, clip: Path) -> Path:
    """The same pictures with a note that they are to be shown turned by 90 degrees, as phones write it."""
    with av.open(str(clip)) as source, av.open(str(out), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        stream.set_display_rotation(90)
        for packet in source.demux(source.streams.video[0]):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    return out


def counted(out: Path, times: Iterable[int], time_base: Fraction, rate: Fraction, options: dict[str, str]) -> Path:
    """Picture n, shown at times[n], carries n as twelve bars: white is 1."""
    with av.open(str(out), "w") as container:
        stream = container.add_stream("libx264", rate=rate, options={"preset": "ultrafast", **options})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.codec_context.time_base = time_base
        for number, time in enumerate(times):
            picture = _numbered(number)
            picture.pts, picture.time_base = time, time_base
            container.mux(stream.encode(picture))
        container.mux(stream.encode())
    return out


def numbers_in(clip: Path) -> list[int]:
    """The numbers that a decoder sees, picture by picture."""
    with av.open(str(clip)) as container:
        container.streams.video[0].thread_type = "AUTO"
        return [_number_of(picture) for picture in container.decode(video=0)]


def times_in(clip: Path) -> list[Fraction]:
    """When each picture is shown, in seconds."""
    with av.open(str(clip)) as container:
        stream = container.streams.video[0]
        assert stream.time_base
        return sorted(packet.pts * stream.time_base for packet in container.demux(stream) if packet.pts is not None)


def _numbered(number: int) -> VideoFrame:
    picture = VideoFrame(WIDTH, HEIGHT, "yuv420p")
    luma, *chroma = picture.planes
    bar = WIDTH // BITS
    row = b"".join((b"\xeb" if number >> bit & 1 else b"\x10") * bar for bit in range(BITS))
    luma.update(row.ljust(luma.line_size, b"\x10") * HEIGHT)
    for plane in chroma:
        plane.update(b"\x80" * plane.buffer_size)
    return picture


def _number_of(picture: VideoFrame) -> int:
    luma = picture.planes[0]
    row = bytes(luma)[luma.line_size * (picture.height // 2) :]
    bar = picture.width // BITS
    return sum(1 << bit for bit in range(BITS) if row[bit * bar + bar // 2] > 128)
