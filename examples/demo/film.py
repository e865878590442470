"""The film of the demos: long enough that its render can be disturbed on this machine, and what a player says of it."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import av

from renderbox import ffmpeg

CLIP = Path(__file__).with_name("bigbuckbunny.mp4")
CREDITS = "The film: a scene of Big Buck Bunny, (c) Blender Foundation, CC BY 3.0, {times} times over."
CLIP_PICTURES, SAMPLE_PICTURES = 132, 30
TIMES_MIN, TIMES_MAX = 4, 40


def make_film(folder: Path, render_s: float, *, times_min: int = TIMES_MIN) -> tuple[Path, str, int]:
    """Repeat the clip until its render takes long enough to be disturbed.

    Args:
        render_s: How long its render should take if nobody disturbed it.
        times_min: How often it has the clip at least.

    Returns:
        The film, x264's preset, and how many times it has the clip.
    """
    preset, times = "veryfast", times_for("veryfast", render_s)
    if not times_min <= times <= TIMES_MAX:
        preset = "ultrafast" if times < times_min else "slower"
        times = min(max(times_for(preset, render_s), times_min), TIMES_MAX)
    film = folder / "film.mp4"
    run("-stream_loop", times - 1, "-i", CLIP, "-c", "copy", film)
    return film, preset, times


def times_for(preset: str, render_s: float) -> int:
    """How often the clip fits into the wanted render time on this machine."""
    best_s = min(sample_s(preset) for _ in range(2))
    return round(render_s * SAMPLE_PICTURES / best_s / CLIP_PICTURES)


def sample_s(preset: str) -> float:
    """How long the sample takes when nothing else runs: a machine busy only now must not make the film too short."""
    before_s = cpu_of_children_s()
    chain = ("-frames:v", SAMPLE_PICTURES, "-vf", "scale=1920:1080", "-c:v", "libx264", "-preset", preset)
    run("-i", CLIP, *chain, "-f", "null", "-")
    return (cpu_of_children_s() - before_s) / (os.cpu_count() or 1)


def cpu_of_children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(*arguments: object) -> None:
    subprocess.run([ffmpeg.find().path, "-nostdin", "-v", "error", *map(str, arguments)], check=True)


def played(film: Path, preview: Path) -> tuple[str, bool]:
    """What a player says of the preview of a film, and whether that is right."""
    with av.open(str(film)) as source, av.open(str(preview)) as made:
        picture = made.streams.video[0]
        length_s, wanted_s = (made.duration or 0) / 1e6, (source.duration or 0) / 1e6
        made.seek(round((length_s - 1) * 1e6))
        pictures = sum(1 for _ in made.decode(video=0))
        plays = (picture.width, picture.height) == (1920, 1080) and abs(length_s - wanted_s) < 0.5 and pictures > 10
    size = f"{picture.width}x{picture.height}"
    return f"it plays: {size}, {length_s:.1f} s of {wanted_s:.1f} s, to the last picture", plays
