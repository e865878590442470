"""What a run says to people: a line for each fact, and one sentence for all. Both follow from the facts alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from planrun.sim.lab.history import WORKERS, Fact, Lane, Point, Tally, Tone, What
from planrun.sim.lab.settings import Fault, Settings

LOSSES = (What.EXPIRE, What.PROOF, What.RETRY)  # each is one attempt fewer
ENDS = (*LOSSES, What.BACK)
LATE = (What.NOT_HELD, What.NEWS, What.STOPPED)
FILES = (What.STORE, What.ASIDE, What.OVERWRITE, What.REPLACE)
TURNED_AWAY = (What.REFUSE, What.LOST, *LATE)
TROUBLE = (What.FREEZE, What.CRASH, What.TERM, What.CUT)
STOPS = {
    What.NOT_HELD: "asked before it stored, and was told that it no longer held the lease",
    What.NEWS: "heard that it had lost the lease, and stopped",
    What.STOPPED: "saw in its upload that its lease was over, and stopped",
}
MINOR = (What.RENEW, What.UNHEARD, What.HELD, What.TRUSTS, What.UPLOAD, What.START, What.SUBMIT)


def name_of(lane: Lane | None) -> str:
    """As people call it."""
    match lane:
        case Lane.A:
            return "worker A"
        case Lane.B:
            return "worker B"
        case Lane.LEDGER:
            return "the ledger"
        case Lane.STORE:
            return "the store"
        case None:
            return "nobody"
    assert_never(lane)


def seconds(at_ms: int) -> str:
    """A moment, in tenths of a second: what the code itself takes is not what a reader looks for."""
    return f"{at_ms / 1000:.1f}".removesuffix(".0") + " s"


def tally_of(facts: Sequence[Fact]) -> Tally:
    """What came of it, in numbers."""

    def count(*kinds: What) -> int:
        return sum(fact.what in kinds for fact in facts)

    turned_away = {fact.token for fact in facts if fact.what in TURNED_AWAY}
    return Tally(
        starts=count(What.GRANT),
        files=count(*FILES),
        overwritten=count(What.OVERWRITE),
        refused=len(turned_away),
        answers=count(What.ANNOUNCE),
    )


def points_of(facts: Sequence[Fact], settings: Settings) -> tuple[Point, ...]:
    """Each fact with its line."""
    plot = Plot(facts, settings)
    return tuple(
        Point(
            at_ms=fact.at_ms,
            lane=fact.lane,
            what=fact.what,
            token=fact.token,
            by=fact.by,
            than=fact.than,
            says=plot.line(fact),
            tone=plot.tone(fact),
            is_minor=fact.what in MINOR,
        )
        for fact in facts
    )


@dataclass(frozen=True)
class Plot:
    """The facts of one run, to be asked about."""

    facts: Sequence[Fact]
    settings: Settings

    # --- a line for each fact ---

    def line(self, fact: Fact) -> str:
        """What happened, in words that need nothing before them."""
        return _begun(self._of_worker(fact) if fact.lane in WORKERS else self._of_others(fact))

    def tone(self, fact: Fact) -> Tone:
        """How to take it."""
        if fact.what is What.OVERWRITE:
            return Tone.HARM
        if fact.what in TURNED_AWAY or fact.what is What.ASIDE:
            return Tone.GUARD
        is_taken_late = fact.what in FILES and self._is_stale(fact)
        is_trouble = fact.what in (*TROUBLE, What.EXPIRE, What.PROOF, What.FAILED)
        return Tone.TROUBLE if is_taken_late or is_trouble else Tone.PLAIN

    def _of_worker(self, fact: Fact) -> str:
        still = f", still believing that it holds {fact.token}" if self._is_stale(fact) else ""
        lines = {
            What.GRANT: f"takes the lease with fencing token {fact.token}",
            What.RENEW: f"renews its lease (token {fact.token})",
            What.UNHEARD: "sends a renewal that nobody answers",
            What.NEWS: f"hears that it has lost the lease (token {fact.token}), and stops",
            What.FREEZE: self._freeze(),
            What.THAW: f"goes on{still}",
            What.CRASH: "crashes",
            What.START: "is started",
            What.TERM: "is told to stop for a deploy (SIGTERM)",
            What.CUT: "is cut off: what it sends does not arrive",
            What.HEAL: "is connected again",
            What.HELD: "asks whether it still holds the lease: yes, and that renews it",
            What.TRUSTS: "asks whether it still holds the lease; nobody answers, and its own deadline has not passed",
            What.NOT_HELD: f"asks whether it still holds the lease (token {fact.token}): no; it stores nothing",
            What.UPLOAD: "begins to write the result",
            What.STOPPED: "stops its upload: its lease is over",
        }
        return lines[fact.what]

    def _of_others(self, fact: Fact) -> str:
        who, token, than = name_of(fact.by), fact.token, fact.than
        other = name_of(self._holder(than))
        lines = {
            What.SUBMIT: "takes the job in",
            What.FREEZE: "freezes: nobody is answered",
            What.CRASH: "crashes: nobody is answered",
            What.THAW: "goes on",
            What.START: "is started again",
            What.EXPIRE: f"{who}'s lease ({token}) expires; the job goes back in line",
            What.PROOF: f"{who} is proven dead; its lease ({token}) ends, and the job goes back in line",
            What.BACK: f"{who} hands the job back; no retry is used up",
            What.RETRY: f"{who}'s attempt ({token}) failed; the job goes back in line",
            What.STORE: f"takes {who}'s write (token {token}){self._though_late(fact)}",
            What.ASIDE: f"keeps {who}'s late file (token {token}) under a key of its own, which nobody reads",
            What.OVERWRITE: f"takes {who}'s write (token {token}) and overwrites {other}'s result (token {than})",
            What.REPLACE: f"takes {who}'s write (token {token}) instead of what {other} had left (token {than})"
            f"{self._though_late(fact)}",
            What.REFUSE: f"refuses {who}'s write: token {token} is older than {than}",
            What.WON: f"{who} settles: token {token} has won",
            What.LOST: f"{who}'s settle is answered “lost”: token {token} no longer holds the job",
            What.FAILED: "gives the job up: too many attempts were lost",
            What.ANNOUNCE: f"the answer goes out, of token {token}",
        }
        return lines[fact.what]

    def _freeze(self) -> str:
        for_s = f"{self.settings.for_s:g} s"
        if self.settings.fault is Fault.VM_PAUSE:
            return f"is paused with its whole machine for {for_s}: its clock stands still, too"
        return f"freezes for {for_s}"

    def _though_late(self, fact: Fact) -> str:
        if not self._is_stale(fact):
            return ""
        return f", though that lease is over{': it has seen no newer token' if self.settings.fencing else ''}"

    # --- what is asked of the facts ---

    def _all(self, *kinds: What) -> list[Fact]:
        return [fact for fact in self.facts if fact.what in kinds]

    def _first(self, *kinds: What, token: int | None = None) -> Fact | None:
        found = self._all(*kinds)
        return next((fact for fact in found if token is None or fact.token == token), None)

    def _holder(self, token: int | None) -> Lane | None:
        grant = None if token is None else self._first(What.GRANT, token=token)
        return None if grant is None else grant.lane

    def _up_to(self, fact: Fact, *kinds: What) -> list[Fact]:
        """Those before it: what one moment brings is in order, too."""
        return [each for each in self.facts[: self.facts.index(fact)] if each.what in kinds]

    def _after(self, fact: Fact, *kinds: What) -> list[Fact]:
        return [each for each in self.facts[self.facts.index(fact) + 1 :] if each.what in kinds]

    def _is_stale(self, fact: Fact) -> bool:
        return any(end.token == fact.token for end in self._up_to(fact, *ENDS))

    def _named(self, token: int | None) -> str:
        return f"{name_of(self._holder(token))} (token {token})"

    def _how_ended(self, token: int | None) -> str:
        """`whose lease expired at 10 s`; empty if it did not end before its time."""
        end = self._first(*ENDS, token=token)
        if end is None:
            return ""
        how = {
            What.EXPIRE: "whose lease expired at",
            What.PROOF: "who was proven dead at",
            What.BACK: "who handed the job back at",
            What.RETRY: "whose attempt failed at",
        }
        return f"{how[end.what]} {seconds(end.at_ms)}"

    # --- the sentence ---

    def sentence(self) -> tuple[str, Tone]:
        """Who overwrote whom, or who was refused and why; and how to take it."""
        text, tone = self._ending()
        return _begun(text), tone

    def _ending(self) -> tuple[str, Tone]:
        won = self._first(What.WON)
        if overwrites := self._all(What.OVERWRITE):
            return self._overwritten(overwrites[-1], won), Tone.HARM
        if failed := self._first(What.FAILED):
            return self._failed(failed), Tone.TROUBLE
        if won is None:
            return self._unended(), Tone.TROUBLE
        for late in (self._first(What.REFUSE), self._first(What.LOST), self._first(*LATE)):
            if late is not None:
                return self._refused(late, won), Tone.TROUBLE if self._all(What.REPLACE) else Tone.GUARD
        if back := self._first(What.BACK):
            return self._handed_back(back, won), Tone.PLAIN
        if crash := self._first(What.CRASH):
            return self._crashed(crash, won), Tone.GUARD
        return self._undisturbed(won), Tone.PLAIN

    def _overwritten(self, overwrite: Fact, won: Fact | None) -> str:
        before = self._first(*FILES, token=overwrite.than)
        stored = f" had stored at {seconds(before.at_ms)}" if before else " had stored"
        if until := self._replaced(overwrite):
            came = f"readers got that{until}"
        elif won:
            is_out = won in self._up_to(overwrite, What.WON)
            came = f"the answer that {'went out now' if is_out else 'goes out then'} points at the wrong bytes"
        else:
            came = "that is what readers get, and the job is not done"
        return (
            f"At {seconds(overwrite.at_ms)} {self._late(overwrite)} "
            f"overwrote the result that {self._named(overwrite.than)}{stored}; {came}."
        )

    def _refused(self, late: Fact, won: Fact) -> str:
        about, winner, known = self._late(late), self._named(won.token), ""
        if late.what is What.REFUSE:
            known = self._named(late.than)
            taken = f"token {late.than} from {name_of(self._holder(late.than))}"
            how = f"the store refused the late write of {about} because it had already taken {taken}"
        elif late.what is What.LOST:
            known, why = self._why_lost(late)
            how = f"the ledger refused {about} because {why}"
        else:
            how = f"{about} {STOPS[late.what]}"
        done = "" if known == winner else f"; {winner} did the job"
        rest = "in the end one result, one answer" if self._all(What.REPLACE) else "one result, one answer"
        return f"At {seconds(late.at_ms)} {how}{self._file(late.token)}{done}: {rest}."

    def _late(self, late: Fact) -> str:
        """`worker A (token 33), whose lease expired at 10 s,`."""
        ended = self._how_ended(late.token)
        return f"{name_of(late.by or late.lane)} (token {late.token}){f', {ended},' if ended else ''}"

    def _why_lost(self, late: Fact) -> tuple[str, str]:
        """Who held the job when it settled, and why that was too late. Whoever won may have come later still."""
        newest = self._up_to(late, What.GRANT)[-1]
        if newest.token == late.token:
            return "", "the job was back in line"
        holder = self._named(newest.token)
        return holder, f"{holder} had taken over"

    # --- what became of its file ---

    def _file(self, token: int | None) -> str:
        """Where the file of an attempt that did not win is, and who read it."""
        file = self._first(*FILES, token=token)
        if file is None:
            return ""
        if self.settings.attempt_keys:
            return "; its file lies under a key of its own, which nobody reads"
        unseen = ", which had seen no newer token," if self.settings.fencing and self._is_stale(file) else ""
        return f"; the lab store{unseen} had taken its file, and readers got it{self._replaced(file)}"

    def _replaced(self, file: Fact) -> str:
        """` until worker B (token 34) replaced it at 16.5 s`; empty if nobody did."""
        later = self._after(file, *FILES)
        return f" until {self._named(later[0].token)} replaced it at {seconds(later[0].at_ms)}" if later else ""

    # --- no winner, or nobody in its way ---

    def _failed(self, failed: Fact) -> str:
        lost = len(self._all(*LOSSES))
        attempts = "an attempt" if lost == 1 else f"{lost} attempts"
        left = self._all(*FILES)
        seen = "nothing of it is visible"
        if left and not self.settings.attempt_keys:
            seen = f"a reader of the lab store gets what {self._named(left[-1].token)} left there"
        return (
            f"at {seconds(failed.at_ms)} the ledger gave the job up after losing {attempts}"
            f"{self._hopeless()}: it failed, {seen}, and one answer says so."
        )

    def _unended(self) -> str:
        return (
            f"the job has not ended within this picture{self._hopeless()}; nobody was told anything, and the ledger "
            "still has it."
        )

    def _hopeless(self) -> str:
        told = self.settings
        why = f", for nobody keeps a lease of {told.lease_s:g} s by renewing it every {told.renew_every_s:g} s"
        return why if told.is_hopeless else ""

    def _handed_back(self, back: Fact, won: Fact) -> str:
        term = self._first(What.TERM)
        asked = f"Told to stop at {seconds(term.at_ms)}, " if term else ""
        spared = "" if self._all(*LOSSES) else "no retry was used up, "
        return (
            f"{asked}{name_of(back.by)} (token {back.token}) handed the job back, and {self._named(won.token)} "
            f"finished it at {seconds(won.at_ms)}: nobody was refused, {spared}one answer."
        )

    def _crashed(self, crash: Fact, won: Fact) -> str:
        at = seconds(crash.at_ms)
        if crash.lane is Lane.LEDGER:
            return f"The orchestrator crashed at {at} and lost nothing: {self._named(won.token)} settled, one answer."
        token = crash.token
        if won.token == token:
            return (
                f"{name_of(crash.lane)} crashed at {at}, after its settle (token {token}) was written: the job was "
                "finished, nobody ran it again, and the ledger sent the one answer without it."
            )
        stored = self._first(*FILES, token=token)
        left = "with its file stored and nothing settled" if stored else "in the middle of the job"
        end = self._first(*ENDS, token=token)
        grants = len(self._all(What.GRANT))
        times = "twice" if grants == 2 else f"{grants} times"
        how = ""
        if end is not None:
            how = f"its lease ({token}) {'expired' if end.what is What.EXPIRE else 'ended'} at {seconds(end.at_ms)}, "
        return (
            f"{name_of(crash.lane)} crashed at {at} {left}: {how}{self._named(won.token)} ran the job again and "
            f"settled at {seconds(won.at_ms)}, so it ran {times}, and one result and one answer came of it."
        )

    def _undisturbed(self, won: Fact) -> str:
        winner, at = self._named(won.token), seconds(won.at_ms)
        grants = len(self._all(What.GRANT))
        troubles = self._up_to(won, *TROUBLE)
        if grants > 1:
            return f"The job was started {grants} times; {winner} settled at {at}: one result, one answer."
        if not troubles:
            return f"Nobody got in the way: {winner} settled at {at}, one result, one answer."
        if troubles[0].lane is Lane.LEDGER:
            return f"Nobody took over while the orchestrator stood still: {winner} settled at {at}, one answer."
        return f"Nobody took over: {winner} still held its lease when it settled at {at}: one answer."


def _begun(text: str) -> str:
    """With a capital letter."""
    return text[:1].upper() + text[1:]
