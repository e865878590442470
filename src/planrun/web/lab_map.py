"""The map of the system on the lab's page: each part, what it is responsible for, and which state it owns.

Drawn twice from one table, wide and tall; the page shows what fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import dist


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Attributes:
    wide, tall: Column and row in the two drawings.
    is_planned: planrun has none yet.
    """

    name: str
    title: str
    wide: tuple[int, int]
    tall: tuple[int, int]
    does: str
    owns: str
    gone: str
    is_planned: bool = False


PARTS = (
    Part(
        name="app",
        title="Web servers",
        wide=(0, 0),
        tall=(0, 0),
        does="Hand a job in under a request id of their own, so that asking twice is one job. Then they wait for the "
        "answer, or are told.",
        owns="Which jobs they asked for, and what they have already done with each answer.",
        gone="The job goes on. Whoever asks again with the same request id gets the same answer.",
    ),
    Part(
        name="gateway",
        title="Gateway",
        wide=(1, 0),
        tall=(1, 0),
        does="Takes bursts in: checks each request, fixes the job's identity, appends it to the log, and only then "
        "answers.",
        owns="Nothing. Any number of them are alike.",
        gone="The web servers ask another one, with the same request id.",
        is_planned=True,
    ),
    Part(
        name="log",
        title="Log",
        wide=(2, 0),
        tall=(1, 1),
        does="Keeps what was handed in, in order, until it is in the ledger, and for a while after.",
        owns="The requests that the ledger has not seen yet.",
        gone="Nothing new is taken in. What runs goes on.",
        is_planned=True,
    ),
    Part(
        name="relay",
        title="Relay",
        wide=(3, 0),
        tall=(0, 1),
        does="Reads the log, and submits each request to the ledger once, at a rate that is set.",
        owns="How far it has read; written into the ledger together with the jobs, so that the two cannot disagree.",
        gone="The log grows. The next relay goes on where the ledger says.",
        is_planned=True,
    ),
    Part(
        name="orchestrator",
        title="Orchestrator",
        wide=(2, 1),
        tall=(1, 2),
        does="Serves the ledger: takes jobs in, offers them, ends leases that ran out, and sends each answer until "
        "somebody has taken it.",
        owns="Nothing that the ledger does not hold. On one machine each worker does these duties.",
        gone="Workers go on until their own deadline. When it is back, every running lease gets its full length again.",
    ),
    Part(
        name="ledger",
        title="Ledger",
        wide=(3, 1),
        tall=(0, 2),
        does="The one record of which job runs where. Each change asks for exactly this job, attempt and token, in one "
        "transaction with its result and its answer.",
        owns="Jobs, attempts, leases, tokens, results, and the answers still to be sent.",
        gone="Nobody starts or settles anything. A settle is asked again until there is a definite answer.",
    ),
    Part(
        name="queue",
        title="Queues",
        wide=(2, 2),
        tall=(1, 3),
        does="Carry offers to workers and heartbeats back, at least once each. An offer is acknowledged as soon as the "
        "lease is in the ledger, never after the work.",
        owns="Nothing of value: an offer is a hint. It may come twice, late or never.",
        gone="Heartbeats go over HTTP, and offers are sent again when the queue is back.",
    ),
    Part(
        name="worker",
        title="Workers",
        wide=(3, 2),
        tall=(0, 3),
        does="Take an offer, get the lease, run the job in a process of its own, renew, ask once more whether they "
        "still hold it, upload, settle.",
        owns="The lease they hold, until when they may trust themselves without an answer, and a scratch folder.",
        gone="The lease ends, by proof of death or by time, and the job starts again elsewhere as the next attempt.",
    ),
    Part(
        name="job",
        title="Job process",
        wide=(2, 3),
        tall=(1, 4),
        does="Runs your code. It gets its inputs, a folder and a way to say how far it is.",
        owns="What lies in its folder. It sees no store, no ledger, no queue and no lease, so it can announce nothing.",
        gone="It counts as a failure of the job, which is tried again.",
    ),
    Part(
        name="store",
        title="Store",
        wide=(3, 3),
        tall=(0, 4),
        does="Keeps result files, each under a key that names its attempt and token. None is ever overwritten.",
        owns="Bytes. It does not know which attempt won: the ledger's row says so, and readers ask there.",
        gone="Workers keep their files and try again. Nothing is announced that is not stored.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """Who turns to whom, numbered as a job goes.

    Attributes:
        wide, tall: Corners of its line, in steps of the grid; None: straight from part to part.
        shift: Aside of the straight line, where two run between the same parts.
    """

    number: str
    source: str
    target: str
    what: str
    wide: Sequence[tuple[float, float]] | None = None
    tall: Sequence[tuple[float, float]] | None = None
    shift: float = 0
    is_planned: bool = False


HOPS = (
    Hop(number="1", source="app", target="gateway", what="hand a job in", is_planned=True),
    Hop(number="2", source="gateway", target="log", what="append it to the log", is_planned=True),
    Hop(number="3", source="relay", target="log", what="read the log", is_planned=True),
    Hop(number="4", source="relay", target="ledger", what="submit, at a controlled rate", is_planned=True),
    Hop(number="4", source="orchestrator", target="queue", what="offer, at a controlled rate"),
    Hop(number="5", source="worker", target="queue", what="take an offer"),
    Hop(number="5", source="worker", target="ledger", what="get the lease and renew it", shift=-1),
    Hop(number="6", source="worker", target="store", what="do the work, and store its file"),
    Hop(number="6", source="worker", target="job", what="run the job"),
    Hop(number="7", source="worker", target="ledger", what="settle", shift=1),
    Hop(number="", source="orchestrator", target="ledger", what="owns it"),
    Hop(
        number="8",
        source="orchestrator",
        target="app",
        what="send the answer (and, until there is a gateway, take jobs in)",
        wide=((2, 1), (0, 1), (0, 0)),
        tall=((1, 2), (1.47, 2), (1.47, -0.52), (0, -0.52), (0, 0)),
    ),
)


@dataclass(frozen=True, slots=True)
class Layout:
    """One drawing: its name, the size of a part, and the steps from one to the next."""

    name: str
    width: int
    height: int
    step_x: int
    step_y: int
    left: int
    top: int
    across: int
    down: int

    def middle(self, at: tuple[float, float]) -> tuple[float, float]:
        return self.left + at[0] * self.step_x + self.width / 2, self.top + at[1] * self.step_y + self.height / 2


LAYOUTS = (
    Layout("wide", 168, 56, 252, 104, 8, 8, 940, 384),
    Layout("tall", 136, 52, 190, 100, 8, 40, 366, 500),
)


def drawings() -> str:
    """The map in both layouts, every part a link to what is said of it."""
    return "\n".join(_drawing(layout) for layout in LAYOUTS)


def descriptions() -> str:
    """What is said of each part."""
    return "\n".join(_description(part) for part in PARTS)


def _place(part: Part, layout: Layout) -> tuple[float, float]:
    at = part.wide if layout.name == "wide" else part.tall
    return layout.middle(at)


def _drawing(layout: Layout) -> str:
    known = {part.name: part for part in PARTS}
    lines = "\n".join(_hop(hop, known, layout) for hop in HOPS)
    boxes = "\n".join(_box(part, layout) for part in PARTS)
    return f"""\
<svg class="map {layout.name}" viewBox="0 0 {layout.across} {layout.down}" role="group" aria-label="Map of the system">
<g class="hops" aria-hidden="true">
{lines}
</g>
{boxes}
</svg>"""


def _box(part: Part, layout: Layout) -> str:
    x, y = _place(part, layout)
    left, top = x - layout.width / 2, y - layout.height / 2
    planned = f'<text class="soon" x="{x}" y="{y + 17}">planned</text>' if part.is_planned else ""
    up = 3 if part.is_planned else -5
    return (
        f'<a href="#map-{part.name}" class="part{" planned" if part.is_planned else ""}" data-part="{part.name}">'
        f'<rect x="{left:g}" y="{top:g}" width="{layout.width}" height="{layout.height}" rx="12"/>'
        f'<text x="{x:g}" y="{y - up:g}">{escape(part.title)}</text>{planned}</a>'
    )


def _hop(hop: Hop, known: Mapping[str, Part], layout: Layout) -> str:
    source, target = _place(known[hop.source], layout), _place(known[hop.target], layout)
    bends = hop.wide if layout.name == "wide" else hop.tall
    corners = [layout.middle(at) for at in bends] if bends else _straight(source, target, hop.shift)
    shown = _cut(corners, layout)
    path = "M" + " L".join(f"{x:g} {y:g}" for x, y in shown)
    middle = _halfway(shown)
    number = (
        f'<circle cx="{middle[0]:g}" cy="{middle[1]:g}" r="11"/>'
        f'<text x="{middle[0]:g}" y="{middle[1] + 4.5:g}">{hop.number}</text>'
        if hop.number
        else ""
    )
    arrow = ' marker-end="url(#arrow)"' if hop.number else ""
    planned, ends = " planned" if hop.is_planned else "", f"{hop.source} {hop.target}"
    return f'<g class="hop{planned}" data-ends="{ends}"><path d="{path}"{arrow}/>{number}</g>'


def _straight(source: tuple[float, float], target: tuple[float, float], shift: float) -> list[tuple[float, float]]:
    """Two lines between the same parts run beside each other."""
    aside = shift * 26
    is_upright = abs(source[0] - target[0]) < abs(source[1] - target[1])
    dx, dy = (aside, 0.0) if is_upright else (0.0, aside)
    return [(source[0] + dx, source[1] + dy), (target[0] + dx, target[1] + dy)]


def _cut(corners: Sequence[tuple[float, float]], layout: Layout) -> list[tuple[float, float]]:
    """The line from edge to edge of its parts, not from middle to middle."""
    first = _edge(corners[0], corners[1], layout, 0)
    last = _edge(corners[-1], corners[-2], layout, 5)
    return [first, *corners[1:-1], last]


def _edge(inside: tuple[float, float], towards: tuple[float, float], layout: Layout, gap: float) -> tuple[float, float]:
    dx, dy = towards[0] - inside[0], towards[1] - inside[1]
    reach = min(
        (layout.width / 2 + gap) / abs(dx) if dx else float("inf"),
        (layout.height / 2 + gap) / abs(dy) if dy else float("inf"),
    )
    return inside[0] + dx * reach, inside[1] + dy * reach


def _halfway(corners: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """The middle of the longest stretch."""
    (x1, y1), (x2, y2) = max(pairwise(corners), key=lambda ends: dist(*ends))
    return (x1 + x2) / 2, (y1 + y2) / 2


def _description(part: Part) -> str:
    titles = {each.name: each.title for each in PARTS}
    hops = "".join(
        f"<li><b>{hop.number}</b> {escape(titles[hop.source])} → {escape(titles[hop.target])}: {escape(hop.what)}</li>"
        for hop in HOPS
        if hop.number and part.name in (hop.source, hop.target)
    )
    planned = '<p class="soon">Planned: planrun has no such part yet.</p>' if part.is_planned else ""
    return (
        f'<section class="about" id="map-{part.name}" tabindex="-1" aria-labelledby="title-{part.name}">'
        f'<h3 id="title-{part.name}">{escape(part.title)}</h3>{planned}'
        f"<dl><dt>Is responsible for</dt><dd>{escape(part.does)}</dd><dt>Owns</dt><dd>{escape(part.owns)}</dd>"
        f"<dt>If it is gone</dt><dd>{escape(part.gone)}</dd></dl><ul>{hops}</ul></section>"
    )
