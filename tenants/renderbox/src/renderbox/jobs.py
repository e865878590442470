"""The kind `preview`, version `v1`: one clip in, one checked 1080p mp4 out."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from planrun.jobs import JobContext, Permanent, Stopped, Transient, job
from renderbox import ffmpeg
from renderbox.join import join
from renderbox.pieces import Pieces
from renderbox.plan import LAYOUT, Plan, plan_for
from renderbox.probe import probe
from renderbox.render import PICTURES_DONE, PROBED, Render
from renderbox.settings import settings_from
from renderbox.verify import verify

INPUT = "upload"
_JOINED = 0.99


@job("preview", version="v1", needs=("ffmpeg",), resumable=LAYOUT, stall_s=300, output_bytes_max="4GiB")
def preview(j: JobContext) -> dict[str, Path]:
    """Render the input `upload` as `preview.mp4`.

    Params: `filters`, `crf`, `preset`, as in `renderbox.settings.Settings`.

    Raises:
        Permanent: The params, the filters or the input are at fault.
        Transient: This machine is, or nobody knows.
    """
    settings = settings_from(j.params)
    tool = ffmpeg.find()
    folder = j.scratch / "work"
    folder.mkdir(exist_ok=True)
    upload = _under_plain_name(j, folder)
    j.progress(0.0, "reading the input")
    clip = probe(upload, watch=lambda: _stop_if_asked(j))
    plan = plan_for(clip, settings, tool)
    pieces = Pieces.left_in(j.checkpoint, plan)
    if j.checkpoint:
        j.log(f"{len(pieces.segments)} of {plan.segments} segments are there from an earlier attempt")
    render = Render(j, tool, plan, folder, pieces)
    size = render.try_out()
    j.progress(PROBED, "input read, filters tried out")
    render.encode_sound()
    render.encode_pictures()
    return {"preview": _finished(j, plan, render, size)}


def _stop_if_asked(j: JobContext) -> None:
    """Nothing is done yet: what an earlier attempt left stays the newest checkpoint."""
    if j.stopping:
        raise Stopped


def _under_plain_name(j: JobContext, folder: Path) -> Path:
    """The upload by a name that no part of FFmpeg reads a meaning into."""
    if set(j.inputs) != {INPUT}:
        given = ", ".join(sorted(j.inputs)) or "none"
        raise Permanent(f"preview takes one input, named {INPUT!r}; given: {given}", code="bad-input")
    link = folder / "upload"
    link.symlink_to(j.inputs[INPUT].absolute())
    return link


def _finished(j: JobContext, plan: Plan, render: Render, size: tuple[int, int]) -> Path:
    out = j.scratch / "preview.mp4"

    def watch(at_s: float) -> None:
        render.stop_if_asked()
        share = min(max(at_s / plan.video_s, 0.0), 1.0)
        j.progress(PICTURES_DONE + (_JOINED - PICTURES_DONE) * share, "joining the segments")

    try:
        join(render.pieces, out, watch=watch)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Transient(f"the scratch disk is full: {os.strerror(error.errno)}", code="disk-full") from None
        raise
    j.progress(_JOINED, "checking the preview")
    verify(out, plan, size=size)
    return out
