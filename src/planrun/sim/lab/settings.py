"""What a run of the lab is told. Every field is bounded: nobody can ask for a run that does not end soon."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlencode

import msgspec
from msgspec import Meta

from planrun.core.messages import Struct


class Fault(StrEnum):
    """What goes wrong."""

    NONE = "none"
    FREEZE = "freeze"
    VM_PAUSE = "vm-pause"
    CRASH = "crash"
    DEPLOY = "deploy"
    ORCHESTRATOR = "orchestrator"
    LINK = "link"


class Moment(StrEnum):
    """When: at a second, or in a step of worker A, whenever it comes to it."""

    TIME = "time"
    UPLOAD = "upload"
    SETTLE = "settle"
    REPLY = "reply"


class Switch(StrEnum):
    ON = "on"
    OFF = "off"


class Settings(Struct, kw_only=True):
    """One run. Equal settings are equal runs.

    Attributes:
        seed: Of whatever the run leaves to chance.
        fault: What goes wrong.
        moment: `time`: at `at_s`. `upload`: within A's upload. `settle`: A has stored its file, and has not settled.
            `reply`: A has settled, and has not heard the answer.
        at_s: Seconds from the start, where the moment is `time`.
        for_s: How long it lasts; after a crash or a deploy, until A is started again.
        lease_s, renew_every_s: How long a lease is, and how often its holder renews it.
        job_a_s, job_b_s: How long the job takes on either worker.
        upload_s: How long the result is on its way to the store.
        fencing: The lab store refuses a write whose token is older than one that it has seen.
        attempt_keys: Each attempt stores under a key of its own, as planrun does. False: the lab store, one key a job.
    """

    seed: int = 1
    fault: Fault = Fault.FREEZE
    moment: Moment = Moment.TIME
    at_s: float = 2
    for_s: float = 12
    lease_s: float = 10
    renew_every_s: float = 3
    job_a_s: float = 1.5
    job_b_s: float = 0.5
    upload_s: float = 0.5
    fencing: bool = False
    attempt_keys: bool = False

    @property
    def is_fleet(self) -> bool:
        """These faults need machines that are apart; the others are shown on one box."""
        return self.fault in (Fault.VM_PAUSE, Fault.ORCHESTRATOR, Fault.LINK)

    @property
    def is_hopeless(self) -> bool:
        """Nobody keeps such a lease by renewing it so rarely."""
        return self.renew_every_s >= self.lease_s

    @property
    def idle(self) -> Mapping[str, str]:
        """Fields that change nothing in this run: of each, why, and what to do about it."""
        why = {}
        if self.moment is not Moment.TIME:
            why["at_s"] = f"the moment is {self.moment}: leave it out, or say --moment time"
        if self.fault is Fault.NONE:
            why |= dict.fromkeys(("moment", "at_s", "for_s"), "nothing goes wrong: leave it out, or say --fault")
        if self.attempt_keys:
            why["fencing"] = "each attempt has a key of its own: leave it out, or say --attempt-keys off"
        return why


class Preset(StrEnum):
    STALLED = "stalled"
    CRASH = "crash"
    BLIP = "blip"
    DEPLOY = "deploy"
    VM_PAUSE = "vm-pause"


PRESETS: Mapping[Preset, Settings] = {
    Preset.STALLED: Settings(lease_s=8.5),  # renewed by the fence check at 1.5 s: it ends at 10 s
    Preset.CRASH: Settings(
        fault=Fault.CRASH, moment=Moment.SETTLE, for_s=20, job_a_s=4, job_b_s=4, upload_s=1, attempt_keys=True
    ),
    Preset.BLIP: Settings(
        fault=Fault.LINK, at_s=2, for_s=12, job_a_s=15, job_b_s=6, upload_s=1, attempt_keys=True
    ),
    Preset.DEPLOY: Settings(
        fault=Fault.DEPLOY, at_s=4, for_s=3, job_a_s=6, job_b_s=6, upload_s=1, attempt_keys=True
    ),
    Preset.VM_PAUSE: Settings(
        fault=Fault.VM_PAUSE, moment=Moment.UPLOAD, for_s=16, job_a_s=2, job_b_s=2, upload_s=1, attempt_keys=True
    ),
}  # fmt: skip


def link_of(settings: Settings) -> str:
    """The query that makes the same run, whatever the presets may be by then."""
    return urlencode({name: _spelled(getattr(settings, name)) for name in _telling(settings)})


def command_of(settings: Settings) -> str:
    """What makes the same run in a terminal: the nearest preset, and what is other than there."""
    ways = [(preset, _differences(PRESETS[preset], settings)) for preset in Preset]
    preset, other = min(ways, key=lambda way: len(way[1]))
    return " ".join(["planrun lab", preset, *other])


def _differences(base: Settings, settings: Settings) -> list[str]:
    found = []
    for name in _telling(settings):
        value = getattr(settings, name)
        if value != getattr(base, name):
            flag = name.replace("_", "-")
            found.append(f"--{flag} {_spelled(value)}")
    return found


def _telling(settings: Settings) -> list[str]:
    """The fields that the run hangs on."""
    return [name for name in Settings.__struct_fields__ if name not in settings.idle]


def _spelled(value: object) -> str:
    if isinstance(value, bool):
        return Switch.ON if value else Switch.OFF
    return f"{value:g}" if isinstance(value, float) else str(value)


Seed = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Length = Annotated[float, Meta(ge=0.1, le=30)]


class Choice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A preset, and what is to be other than there.

    Attributes:
        preset: What to start from: `stalled` (if none is named), `crash`, `blip`, `deploy` or `vm-pause`.
        seed: Of whatever the run leaves to chance.
        fault: What goes wrong: `freeze`, `vm-pause`, `crash` or `deploy` of worker A; the `orchestrator` freezes; the
            `link` of worker A is cut; or `none`.
        moment: When: `time`, or a step of worker A: within its `upload`, before it asks to `settle`, before it hears
            the `reply`.
        at_s: Seconds from the start.
        for_s: How long it lasts.
        lease_s: How long a lease is.
        renew_every_s: How often its holder renews it.
        job_a_s: How long the job takes on worker A.
        job_b_s: How long it takes on worker B.
        upload_s: How long the result is on its way to the store.
        fencing: `on`: the lab store refuses writes with an older token than it has seen.
        attempt_keys: `on`: a key for each attempt, as planrun does; `off`: the lab store, with one key for the job.
    """

    preset: Preset = Preset.STALLED
    seed: Seed | None = None
    fault: Fault | None = None
    moment: Moment | None = None
    at_s: Annotated[float, Meta(ge=0, le=30)] | None = None
    for_s: Annotated[float, Meta(ge=0.1, le=60)] | None = None
    lease_s: Annotated[float, Meta(ge=1, le=30)] | None = None
    renew_every_s: Length | None = None
    job_a_s: Length | None = None
    job_b_s: Length | None = None
    upload_s: Length | None = None
    fencing: Switch | None = None
    attempt_keys: Switch | None = None

    def settings(self) -> Settings:
        """The preset's, with what was chosen instead. Times in tenths of a second.

        What is idle is as by default: equal runs have equal settings.
        """
        fields = {name: getattr(self, name) for name in Settings.__struct_fields__}
        chosen = {name: _understood(value) for name, value in fields.items() if value is not None}
        told = msgspec.structs.replace(PRESETS[self.preset], **chosen)
        return msgspec.structs.replace(told, **{name: getattr(Settings(), name) for name in told.idle})


def _understood(value: object) -> object:
    if isinstance(value, Switch):
        return value is Switch.ON
    return round(value, 1) if isinstance(value, float) else value
