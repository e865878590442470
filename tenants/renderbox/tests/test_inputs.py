"""Whatever people upload: the expected preview, or one clear permanent failure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av
import pytest

from attempt import Attempt
from media import bars, counted, make, numbers_in, turned
from planrun.jobs import Permanent, Transient

FAST = {"preset": "ultrafast", "crf": 35}
X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p")


@dataclass(frozen=True)
class Seen:
    """A preview as a player sees it."""

    size: tuple[int, int]
    rate: Fraction
    video_s: float
    channels: int
    audio_s: float


def seen(preview: Path) -> Seen:
    with av.open(str(preview)) as container:
        video, *others = container.streams
        assert video.type == "video"
        assert [stream.type for stream in others] in ([], ["audio"])
        picture = container.streams.video[0]
        assert picture.average_rate and picture.time_base
        audio = container.streams.audio[0] if others else None
        return Seen(
            (picture.width, picture.height),
            picture.average_rate,
            float((picture.duration or 0) * picture.time_base),
            audio.channels if audio else 0,
            float((audio.duration or 0) * (audio.time_base or 0)) if audio else 0.0,
        )


def rendered(folder: Path, clip: Path) -> Path:
    return Attempt(folder / "attempt", clip, FAST).run()


def refused(folder: Path, clip: Path) -> Permanent:
    with pytest.raises(Permanent) as caught:
        rendered(folder, clip)
    return caught.value


def picture(size: str, rate: int = 30, seconds: float = 1) -> tuple[str, ...]:
    return ("-f", "lavfi", "-i", f"testsrc2=s={size}:r={rate}:d={seconds}")


def tone(seconds: float = 1, hertz: int = 440) -> tuple[str, ...]:
    return ("-f", "lavfi", "-i", f"sine={hertz}:d={seconds}")


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ("1280x720", (1920, 1080)),
        ("641x481", (1440, 1080)),
        ("853x479", (1924 - 4, 1078)),
        ("1x1", (1080, 1080)),
        ("3840x2161", (1920, 1080)),
        ("2390x1000", (1920, 804)),
        ("360x640", (1080, 1920)),
        ("4x1000", (8, 1920)),
    ],
)
def test_the_picture_fills_1080p_with_even_sides(tmp_path: Path, size: str, expected: tuple[int, int]) -> None:
    clip = make(tmp_path / "in.mkv", "-f", "lavfi", "-i", f"color=red:s={size}:r=5:d=1,format=gbrp", "-c:v", "ffv1")

    assert seen(rendered(tmp_path, clip)).size == expected


def test_a_turned_picture_stands_upright(tmp_path: Path) -> None:
    clip = turned(tmp_path / "in.mp4", make(tmp_path / "lying.mp4", *picture("640x360"), *X264))

    assert seen(rendered(tmp_path, clip)).size == (1080, 1920)


def test_oblong_pixels_become_square(tmp_path: Path) -> None:
    clip = make(tmp_path / "in.mp4", *picture("720x576"), "-vf", "setsar=64/45", *X264)

    assert seen(rendered(tmp_path, clip)).size == (1920, 1080)


@pytest.mark.parametrize(
    ("rate", "expected"), [("24000/1001", "24000/1001"), ("50", "50"), ("120", "60"), ("144", "48"), ("2", "2")]
)
def test_the_rate_stays_up_to_60_pictures_per_second(tmp_path: Path, rate: str, expected: str) -> None:
    clip = make(tmp_path / "in.mkv", "-f", "lavfi", "-i", f"testsrc2=s=320x180:r={rate}:d=8", "-c:v", "mpeg4")

    preview = seen(rendered(tmp_path, clip))

    assert preview.rate == Fraction(expected)
    assert preview.video_s == pytest.approx(8, abs=0.05)


def test_every_second_picture_of_a_fast_clip_is_kept(tmp_path: Path) -> None:
    clip = counted(tmp_path / "in.mp4", range(240), Fraction(1, 120), Fraction(120), {})

    numbers = numbers_in(rendered(tmp_path, clip))

    assert [later - earlier for earlier, later in pairwise(numbers)] == [2] * (len(numbers) - 1)
    assert len(numbers) in (120, 121)


def test_a_clip_of_varying_rate_keeps_its_length_and_order(tmp_path: Path) -> None:
    times = [*range(0, 1000, 33), *range(1000, 3000, 250), *range(3000, 4000, 33)]
    clip = counted(tmp_path / "in.mkv", times, Fraction(1, 1000), Fraction(30), {"bf": "0"})

    out = rendered(tmp_path, clip)

    numbers = numbers_in(out)
    assert numbers == sorted(numbers)
    assert set(numbers) >= {0, 31, 35, 38, len(times) - 1}
    assert seen(out).video_s == pytest.approx(4, abs=0.1)
    held = [number for number in numbers if 31 <= number < 39]
    assert len(held) == pytest.approx(2 * seen(out).rate, abs=2), "slow pictures are shown as long as they were"


def test_a_cover_picture_is_not_taken_for_the_video(tmp_path: Path) -> None:
    cover = make(tmp_path / "cover.png", "-f", "lavfi", "-i", "color=blue:s=800x800", "-frames:v", "1")
    clip = make(
        tmp_path / "in.mp4",
        *("-i", str(cover), *picture("320x180", seconds=2), *tone(2), "-map", "0", "-map", "1", "-map", "2"),
        *(*X264, "-c:v:0", "png", "-disposition:v:0", "attached_pic", "-c:a", "aac"),
    )

    preview = seen(rendered(tmp_path, clip))

    assert preview.size == (1920, 1080)
    assert preview.video_s == pytest.approx(2, abs=0.1)
    assert preview.audio_s == pytest.approx(2, abs=0.1)


def test_the_default_one_of_two_tracks_is_heard(tmp_path: Path) -> None:
    clip = make(
        tmp_path / "in.mp4",
        *(*picture("320x180", seconds=2), *tone(1), *tone(2, 880), "-map", "0", "-map", "1", "-map", "2"),
        *(*X264, "-c:a", "aac", "-disposition:a:0", "0", "-disposition:a:1", "default"),
    )

    assert seen(rendered(tmp_path, clip)).audio_s == pytest.approx(2, abs=0.1)


def test_a_silent_clip_has_a_silent_preview(tmp_path: Path) -> None:
    clip = make(tmp_path / "in.mp4", *picture("320x180"), *X264)

    assert seen(rendered(tmp_path, clip)).channels == 0


def test_surround_sound_becomes_stereo(tmp_path: Path) -> None:
    sound = ("-f", "lavfi", "-i", "anoisesrc=d=1,aformat=channel_layouts=5.1")
    clip = make(tmp_path / "in.mkv", *picture("320x180"), *sound, *X264, "-c:a", "aac")

    assert seen(rendered(tmp_path, clip)).channels == 2


@pytest.mark.parametrize("name", ["in.ts", "in.webm", "in.gif", "in.avi", "in.h264", "in.mov"])
def test_other_containers_come_out_at_full_length(tmp_path: Path, name: str) -> None:
    sound = tone(2) if name not in ("in.gif", "in.h264") else ()
    clip = make(tmp_path / name, *picture("320x180", rate=25, seconds=2), *sound)

    preview = seen(rendered(tmp_path, clip))

    assert preview.video_s == pytest.approx(2, abs=0.1)
    assert preview.audio_s == pytest.approx(2 if sound else 0, abs=0.2)


@pytest.mark.parametrize(
    "name",
    ["a'b.mp4", "x:y,z[1];=%{n}\\.mp4", "🎬 %05d.mp4", "-i.mp4", "a\nb.mp4", "l" * 251 + ".mp4"],
)
def test_a_file_name_means_nothing(tmp_path: Path, short: Path, name: str) -> None:
    clip = tmp_path / name
    clip.symlink_to(short)

    assert seen(rendered(tmp_path, clip)).size == (1920, 1080)


@pytest.mark.parametrize(("name", "share"), [("in.mp4", 0.6), ("in.mkv", 0.5)])
def test_a_cut_file_is_refused_with_both_lengths(tmp_path: Path, long: Path, name: str, share: float) -> None:
    whole = make(tmp_path / name, "-i", long, "-c", "copy", "-movflags", "+faststart").read_bytes()
    clip = tmp_path / f"cut-{name}"
    clip.write_bytes(whole[: int(len(whole) * share)])

    error = refused(tmp_path, clip)

    assert error.code == "input-truncated"
    assert "announces 10.0" in str(error)
    found = float(str(error).rpartition("after ")[2].removesuffix(" s"))
    assert 10 * share - 1 < found < 10 * share + 1


def test_a_file_without_its_last_bytes_is_refused(tmp_path: Path, long: Path) -> None:
    clip = tmp_path / "cut.mp4"
    clip.write_bytes(long.read_bytes()[:-2000])

    assert refused(tmp_path, clip).code == "input-truncated"


def test_a_damaged_file_never_becomes_a_preview(tmp_path: Path, long: Path) -> None:
    damaged = bytearray(long.read_bytes())
    middle = len(damaged) // 2
    damaged[middle : middle + 3000] = bytes(byte ^ 0x5A for byte in damaged[middle : middle + 3000])
    clip = tmp_path / "damaged.mp4"
    clip.write_bytes(damaged)

    # An FFmpeg before 7 ends with 1 here, as it does for anything else: then it is tried again.
    with pytest.raises((Permanent, Transient)) as caught:
        rendered(tmp_path, clip)

    assert caught.value.code in ("input-unreadable", "ffmpeg-failed")
    assert "\n" not in str(caught.value)


def write(content: bytes) -> Callable[[Path], Path]:
    def to(folder: Path) -> Path:
        clip = folder / "in.mp4"
        clip.write_bytes(content)
        return clip

    return to


@pytest.mark.parametrize(
    ("build", "code", "said"),
    [
        (write(b""), "input-unreadable", "0 bytes"),
        (write(b"no video at all" * 500), "input-unreadable", "cannot be read"),
        (lambda folder: make(folder / "in.m4a", *tone()), "input-no-video", "only audio"),
        (lambda folder: bars(folder / "in.m3u8"), "input-unreadable", ""),
    ],
    ids=["empty", "no media", "audio only", "playlist"],
)
def test_what_is_no_video_fails_once(tmp_path: Path, build: Callable[[Path], Path], code: str, said: str) -> None:
    error = refused(tmp_path, build(tmp_path))

    assert error.code == code
    assert said in str(error)


def test_subtitles_alone_are_no_video(tmp_path: Path) -> None:
    text = tmp_path / "in.srt"
    text.write_text("1\n00:00:00,000 --> 00:00:02,000\nhello\n")

    error = refused(tmp_path, make(tmp_path / "in.mkv", "-i", text))

    assert (error.code, str(error)) == ("input-no-video", "the input holds no moving picture, only subtitle")


def test_a_script_does_not_open_other_files(tmp_path: Path, short: Path) -> None:
    clip = tmp_path / "in.mp4"
    clip.write_text(f"ffconcat version 1.0\nfile '{short}'\n")

    assert refused(tmp_path, clip).code == "input-unreadable"
