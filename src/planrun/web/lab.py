"""The lease lab: its page, and the runs that the page asks for."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from html import escape
from importlib.resources import files

import msgspec
from starlette.responses import HTMLResponse, Response

from planrun.core.plain import plain
from planrun.sim.lab.settings import PRESETS, Choice, Preset
from planrun.web.calls import Call
from planrun.web.lab_map import descriptions, drawings
from planrun.web.lab_runs import Runs
from planrun.web.replies import write_json

TITLES: Mapping[Preset, tuple[str, str]] = {
    Preset.STALLED: ("The stalled worker", "A freezes past its lease, and then it writes."),
    Preset.CRASH: ("Crash before the acknowledgement", "A finishes, and crashes just before it says so."),
    Preset.BLIP: ("Network blip", "A works on, but nobody hears of it."),
    Preset.DEPLOY: ("Deploy", "A is told to stop in the middle of its job."),
    Preset.VM_PAUSE: ("VM pause", "A’s whole machine stands still, with its clock."),
}
SLIDERS = (
    ("at_s", "Goes wrong at", 0, 30),
    ("for_s", "and lasts", 0.1, 60),
    ("lease_s", "Lease", 1, 30),
    ("renew_every_s", "Renewed every", 0.1, 30),
    ("job_a_s", "Job takes on A", 0.1, 30),
    ("job_b_s", "Job takes on B", 0.1, 30),
    ("upload_s", "Storing takes", 0.1, 30),
)


async def lab(call: Call, *, query: Choice) -> Response:
    """The lease lab: what happens to a job when its worker freezes, crashes or is cut off. For a browser."""
    page, policy = _page()
    return HTMLResponse(page, headers=policy)


async def lab_run(call: Call, *, query: Choice) -> Response:
    """One run of the lease lab: planrun's own code in virtual time, told as lanes, points and one sentence.

    Any token will do. Equal settings give equal answers.
    """
    runs: Runs = call.request.app.state.lab_runs
    return write_json(await call.while_wanted(runs.history(query.settings())), headers={"cache-control": "no-store"})


@cache
def _page() -> tuple[str, Mapping[str, str]]:
    """The page, and what it may do: its own style and script, and calls of this server."""
    folder = files("planrun.web").joinpath("lab_page")
    style = folder.joinpath("page.css").read_text("utf-8")
    script = "".join(folder.joinpath(name).read_text("utf-8") for name in ("picture.js", "page.js"))
    page = folder.joinpath("page.html").read_text("utf-8")
    parts = {
        "{style}": style,
        "{script}": script,
        "{presets}": "\n".join(_preset(preset) for preset in Preset),
        "{sliders}": "\n".join(_slider(*slider) for slider in SLIDERS),
        "{map}": drawings(),
        "{parts}": descriptions(),
    }
    for name, text in parts.items():
        page = page.replace(name, text)
    policy = (
        f"default-src 'none'; style-src {_hashed(style)}; script-src {_hashed(script)}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return page, {"content-security-policy": policy, "referrer-policy": "no-referrer"}


def _hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _preset(preset: Preset) -> str:
    title, about = TITLES[preset]
    told = escape(msgspec.json.encode(plain(PRESETS[preset])).decode())
    return (
        f'<label><input type="radio" name="preset" value="{preset}" data-settings="{told}">'
        f"<span><b>{escape(title)}</b><small>{escape(about)}</small></span></label>"
    )


def _slider(name: str, title: str, least: float, most: float) -> str:
    return (
        f'<div class="field"><span><label for="{name}">{escape(title)}</label><output for="{name}"></output></span>'
        f'<input type="range" id="{name}" min="{least:g}" max="{most:g}" step="0.1"></div>'
    )
