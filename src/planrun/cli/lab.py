"""`planrun lab`: one job, two workers, one fault, in virtual time."""

from __future__ import annotations

import signal
import tempfile
from dataclasses import dataclass, fields
from typing import Annotated

import msgspec
from cyclopts import Parameter

from planrun.cli.asking import AsJson, Flag
from planrun.cli.exits import Exit
from planrun.cli.listening import LISTEN
from planrun.cli.printing import print_json
from planrun.cli.saying import say
from planrun.cli.timeline import print_timeline
from planrun.core.errors import Invalid
from planrun.sim.lab.settings import PRESETS, Choice, Fault, Moment, Preset, Settings, Switch, link_of

PresetName = Annotated[
    Preset, Parameter(name="PRESET", help="What to start from; the options below are what is to be other than there.")
]


def _option(text: str) -> Parameter:
    return Parameter(help=text, show_default=False)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LabFlags:
    """The fields of a `Choice`, as the shell spells them."""

    fault: Annotated[
        Fault | None,
        _option(
            "What goes wrong: worker A freezes, is paused with its whole machine, crashes, or is deployed anew; the "
            "orchestrator freezes; A's link to it and the broker is cut; or nothing does."
        ),
    ] = None
    moment: Annotated[
        Moment | None,
        _option("When: at a second; while A stores its file; before it asks to settle; before it hears the reply."),
    ] = None
    at_s: Annotated[float | None, _option("Seconds from the start to the fault, where the moment is time.")] = None
    for_s: Annotated[float | None, _option("Seconds that it lasts.")] = None
    lease_s: Annotated[float | None, _option("Seconds of a lease.")] = None
    renew_every_s: Annotated[float | None, _option("Seconds from one renewal to the next.")] = None
    job_a_s: Annotated[float | None, _option("Seconds that the job takes on worker A.")] = None
    job_b_s: Annotated[float | None, _option("Seconds that it takes on worker B.")] = None
    upload_s: Annotated[float | None, _option("Seconds that its result is on the way to the store.")] = None
    fencing: Annotated[Switch | None, _option("The lab store refuses older tokens.")] = None
    attempt_keys: Annotated[
        Switch | None,
        _option("Each attempt has a key of its own, as in planrun; off: the lab store, one key for the job."),
    ] = None
    seed: Annotated[int | None, _option("Of whatever a run leaves to chance.")] = None


def lab(
    preset: PresetName = Preset.STALLED,
    /,
    *,
    flags: LabFlags = LabFlags(),
    json: AsJson = False,
    serve: Flag = False,
    listen: Annotated[str | None, Parameter(name="--listen", show_default=False)] = None,
) -> int:
    """See what happens to a job whose worker freezes, crashes or is cut off: planrun's own code, in virtual time.

    For example:

      planrun lab
      planrun lab stalled --fencing on
      planrun lab crash
      planrun lab --serve

    Args:
        serve: Show this run on the page of the lab, until Ctrl-C. (planrun up and planrun orchestrator have it, too.)
        listen: Where, with --serve: HOST:PORT of this box; without it 127.0.0.1:8470.
    """
    settings = _settings(preset, flags)
    if serve:
        if json:
            raise Invalid("--json prints a run, and --serve shows one on a page: give one of them")
        return _serve(LISTEN if listen is None else listen, settings)
    if listen is not None:
        raise Invalid("--listen says where the page is: leave it out, or give --serve, too")

    from planrun.sim.lab.run import run  # noqa: PLC0415 - only who runs it needs the simulator

    history = run(settings)
    if json:
        print_json(history)
    else:
        print_timeline(history)
    return Exit.FINISHED


def _settings(preset: Preset, flags: LabFlags) -> Settings:
    """What the run is told.

    Raises:
        Invalid: An option is out of bounds, or would not be followed.
    """
    told = {field.name: getattr(flags, field.name) for field in fields(flags)}
    chosen = {name: value for name, value in told.items() if value is not None}
    try:
        settings = msgspec.convert({"preset": preset, **chosen}, Choice).settings()
    except msgspec.ValidationError as error:
        raise Invalid(_in_words(str(error))) from None
    for name, value in chosen.items():
        if name in settings.idle:
            raise Invalid(f"{_flag(name)} would change nothing, for {settings.idle[name]}")
        if isinstance(value, float) and getattr(settings, name) != value:
            raise Invalid(f"{_flag(name)}: the lab counts in tenths of a second; say {getattr(settings, name):g}")
    return settings


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _in_words(error: str) -> str:
    """`Expected `float` >= 1.0 - at `$.lease_s`` with the option's name in front."""
    what, _, where = error.partition(" - at `$.")
    return f"{_flag(where.rstrip('`'))}: {what[:1].lower()}{what[1:]}" if where else error


def _serve(listen: str, settings: Settings) -> int:
    """The page, beside an empty ledger that goes away with it."""
    from planrun.web.server import HttpServer, address_of, open_socket  # noqa: PLC0415 - not everybody has its packages

    listening = open_socket(listen, is_guarded=False, is_secure=False)
    page = "lab" if settings == PRESETS[Preset.STALLED] else f"lab?{link_of(settings)}"  # which it begins with anyway
    with tempfile.TemporaryDirectory(prefix="planrun-lab-") as folder:
        server = HttpServer(f"sqlite:///{folder}/lab.db", listening, token="")
        say(f"planrun lab: {address_of(listening)}{page}, until Ctrl-C")
        stops = {signal.SIGTERM, signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, stops)
        server.start()
        signal.sigwait(stops)
        server.stop()
    return Exit.FINISHED
