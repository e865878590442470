"""Is it true, what the sentence of a run says? Each of its clauses is looked up in the facts of that run.

The sentence is read from left to right. Words that no claim covers are an error: whoever teaches the lab a new clause
says here what must hold where it is said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from planrun.sim.lab.history import Bar, Fact, History, Lane, Span, What

WHO = r"(?P<who>[Ww]orker [AB]) \(token (?P<token>\d+)\)"
AT = r"(?P<at>\d+(\.\d)?) s"
WRITES = (What.STORE, What.ASIDE, What.OVERWRITE, What.REPLACE)
LOSSES = (What.EXPIRE, What.PROOF, What.RETRY)
ENDS = (*LOSSES, What.BACK)
REFUSALS = (What.REFUSE, What.LOST, What.NOT_HELD, What.NEWS, What.STOPPED)
TROUBLES = (What.FREEZE, What.CRASH, What.TERM, What.CUT)
NAMES = {Lane.A: "worker A", Lane.B: "worker B"}
TENTH_MS = 51  # moments are told in tenths of a second


class Story:
    """The facts of one run, and whom the sentence has come to speak of.

    Attributes:
        token: Of the attempt that it is about.
        at: When it says that something happened to it.
        moment: What that was.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self.facts: list[Fact] = list(history.points)
        self.token = 0
        self.at = ""
        self.moment = self.facts[-1] if self.facts else None

    def all(self, *kinds: What, token: int | None = None) -> list[Fact]:
        return [each for each in self.facts if each.what in kinds and token in (None, each.token)]

    def before(self, *kinds: What, token: int | None = None) -> list[Fact]:
        """What had happened at the moment of the sentence."""
        return self._side(slice(None, self._place), kinds, token)

    def after(self, *kinds: What, token: int | None = None) -> list[Fact]:
        return self._side(slice(self._place, None), kinds, token)

    def _side(self, side: slice, kinds: Sequence[What], token: int | None) -> list[Fact]:
        return [each for each in self.facts[side] if each.what in kinds and token in (None, each.token)]

    @property
    def _place(self) -> int:
        return next(place for place, each in enumerate(self.facts) if each is self.moment)

    def is_about(self, facts: Sequence[Fact], at: str, token: int | None) -> bool:
        """One of these facts came then: from here the sentence is about it, and about this attempt."""
        self.at, self.moment = at, next((each for each in facts if near(at, each)), None)
        self.token = token or 0
        return self.moment is not None

    def is_of(self, token: int, who: str) -> bool:
        return [NAMES[each.lane] for each in self.all(What.GRANT, token=token)] == [f"worker {who[-1]}"]

    @property
    def won(self) -> int | None:
        """The one token that has won."""
        found = self.all(What.WON)
        return found[0].token if len(found) == 1 else None

    @property
    def reads(self) -> list[Span]:
        """Whose bytes a reader gets, as the picture shows it."""
        return [span for span in self.history.spans if span.bar is Bar.READS]


Check = Callable[..., bool]
CLAIMS: list[tuple[re.Pattern[str], Check]] = []


def claim(words: str) -> Callable[[Check], Check]:
    """What must hold where these words stand; what they name is given as text."""

    def noted(check: Check) -> Check:
        CLAIMS.append((re.compile(words), check))
        return check

    return noted


def untrue(history: History) -> str:
    """The first clause that does not hold, or that no claim covers; empty if all of it is true."""
    story, rest = Story(history), history.sentence
    while rest:
        said, check = next(
            ((pattern.match(rest), check) for pattern, check in CLAIMS if pattern.match(rest)), (None, None)
        )
        if said is None or check is None:
            return f"no claim covers “{rest}”"
        named = said.groupdict()
        if "who" in named and not story.is_of(int(named["token"]), named["who"]):
            return f"untrue: {named['who']} never held {named['token']}"
        if not check(story, **named):
            return f"untrue: “{said.group()}”"
        rest = rest[said.end() :]
    return ""


def near(at: str, fact: Fact) -> bool:
    return abs(float(at) * 1000 - fact.at_ms) <= TENTH_MS


def first_at(at: str, facts: Sequence[Fact]) -> bool:
    return bool(facts) and near(at, facts[0])


# --- who was turned away ---


@claim(rf"At {AT} the store refused the late write of {WHO}")
def _(story: Story, at: str, token: str, **_: str) -> bool:
    return story.is_about(story.all(What.REFUSE, token=int(token)), at, int(token))


@claim(rf"At {AT} the ledger refused {WHO}")
def _(story: Story, at: str, token: str, **_: str) -> bool:
    return story.is_about(story.all(What.LOST, token=int(token)), at, int(token))


@claim(rf"At {AT} {WHO}")
def _(story: Story, at: str, token: str, **_: str) -> bool:
    about = story.all(What.OVERWRITE, What.NOT_HELD, What.NEWS, What.STOPPED, token=int(token))
    return story.is_about(about, at, int(token))


for words, end in {
    "whose lease expired": What.EXPIRE,
    "who was proven dead": What.PROOF,
    "who handed the job back": What.BACK,
    "whose attempt failed": What.RETRY,
}.items():

    @claim(rf", {words} at {AT},")
    def _(story: Story, at: str, end: What = end) -> bool:
        ended = story.before(*ENDS, token=story.token)
        return first_at(at, ended) and ended[0].what is end


@claim(r" because it had already taken token (?P<than>\d+) from (?P<whose>worker [AB])")
def _(story: Story, than: str, whose: str) -> bool:
    taken = [NAMES[each.by] for each in story.before(*WRITES, token=int(than)) if each.by in NAMES]
    return taken == [whose] and int(than) > story.token


@claim(rf" because {WHO} had taken over")
def _(story: Story, token: str, **_: str) -> bool:
    """Whoever held the job at that moment, or was the last that did."""
    return story.before(What.GRANT)[-1].token == int(token) > story.token


@claim(" because the job was back in line")
def _(story: Story) -> bool:
    grant = story.before(What.GRANT)[-1]
    return grant.token == story.token and bool(story.before(*ENDS, token=story.token)) and not story.before(What.WON)


for words, stop in {
    " asked before it stored, and was told that it no longer held the lease": What.NOT_HELD,
    " heard that it had lost the lease, and stopped": What.NEWS,
    " saw in its upload that its lease was over, and stopped": What.STOPPED,
}.items():

    @claim(words)
    def _(story: Story, stop: What = stop) -> bool:
        has_begun = bool(story.before(What.UPLOAD, token=story.token))
        is_in_place = has_begun is (stop is What.STOPPED) or stop is What.NEWS
        is_late = bool(story.before(*ENDS, token=story.token))
        is_it = story.moment is not None and story.moment.what is stop
        return is_it and is_late and is_in_place and not story.all(*WRITES, token=story.token)


# --- who read what ---


@claim("; its file lies under a key of its own, which nobody reads")
def _(story: Story) -> bool:
    is_there = bool(story.all(*WRITES, token=story.token))
    return is_there and story.history.settings.attempt_keys and story.token not in [span.token for span in story.reads]


@claim(r"; the lab store(?P<unseen>, which had seen no newer token,)? had taken its file, and readers got it")
def _(story: Story, unseen: str | None) -> bool:
    file = story.all(*WRITES, token=story.token)[0]
    taken = story.before(*WRITES)
    newer = [each for each in taken[: taken.index(file)] if (each.token or 0) > story.token]
    ended = [each for each in story.all(*ENDS, token=story.token) if each.at_ms <= file.at_ms]
    told = story.history.settings
    is_read = [span.from_ms for span in story.reads if span.token == story.token] == [file.at_ms]
    return is_read and not told.attempt_keys and bool(unseen) is (told.fencing and bool(ended)) and not newer


@claim("; readers got that")
def _(story: Story) -> bool:
    assert story.moment is not None
    return [span.from_ms for span in story.reads if span.token == story.token] == [story.moment.at_ms]


@claim(rf" until {WHO} replaced it at {AT}")
def _(story: Story, token: str, at: str, **_: str) -> bool:
    until = [span.to_ms for span in story.reads if span.token == story.token]
    writes = story.all(What.REPLACE, token=int(token))
    return first_at(at, writes) and until == [writes[0].at_ms]


@claim(rf" overwrote the result that {WHO} had stored at {AT}")
def _(story: Story, token: str, at: str, **_: str) -> bool:
    is_it = story.moment is not None and (story.moment.what, story.moment.than) == (What.OVERWRITE, int(token))
    return is_it and first_at(at, story.before(*WRITES, token=int(token))) and int(token) > story.token


@claim(r"; the answer that (?P<when>went out now|goes out then) points at the wrong bytes\.$")
def _(story: Story, when: str) -> bool:
    told = story.before(What.ANNOUNCE) if when == "went out now" else story.after(What.ANNOUNCE)
    return [each.token for each in told] == [story.won] and story.reads[-1].token == story.token != story.won


@claim(r"; that is what readers get, and the job is not done\.$")
def _(story: Story) -> bool:
    return story.won is None and story.reads[-1].token == story.token


@claim(r": (?P<at_last>in the end )?one result, one answer\.$")
def _(story: Story, at_last: str | None) -> bool:
    """What counts is read at the end; and without the words also all the time before."""
    read = [span.token for span in story.reads]
    is_one = read[-1] == story.won and [each.token for each in story.all(What.ANNOUNCE)] == [story.won]
    return is_one and bool(at_last) is (len(read) > 1)


@claim(rf"; {WHO} did the job")
def _(story: Story, token: str, **_: str) -> bool:
    return story.won == int(token) != story.token


# --- who gave up ---


@claim(rf"At {AT} the ledger gave the job up after losing (?P<n>an|\d+) attempts?")
def _(story: Story, at: str, n: str) -> bool:
    is_it = story.is_about(story.all(What.FAILED), at, None)
    return is_it and len(story.before(*LOSSES)) == (1 if n == "an" else int(n))


@claim("The job has not ended within this picture")
def _(story: Story) -> bool:
    return not story.all(What.WON, What.FAILED)


@claim(r", for nobody keeps a lease of (?P<lease>[\d.]+) s by renewing it every (?P<every>[\d.]+) s")
def _(story: Story, lease: str, every: str) -> bool:
    told = story.history.settings
    return (told.lease_s, told.renew_every_s) == (float(lease), float(every)) and told.lease_s <= told.renew_every_s


@claim(r": it failed, nothing of it is visible, and one answer says so\.$")
def _(story: Story) -> bool:
    return not story.reads and len(story.all(What.ANNOUNCE)) == 1


@claim(rf": it failed, a reader of the lab store gets what {WHO} left there, and one answer says so\.$")
def _(story: Story, token: str, **_: str) -> bool:
    return story.reads[-1].token == int(token) and len(story.all(What.ANNOUNCE)) == 1


@claim(r"; nobody was told anything, and the ledger still has it\.$")
def _(story: Story) -> bool:
    return not story.all(What.ANNOUNCE)


# --- who was told to stop, and who crashed ---


@claim(rf"(Told to stop at {AT}, )?{WHO} handed the job back")
def _(story: Story, token: str, who: str, at: str | None, **_: str) -> bool:
    backs = story.all(What.BACK, token=int(token))
    is_it = bool(backs) and story.is_about(backs, f"{backs[0].at_ms / 1000}", int(token))
    asked = [each for each in story.before(What.TERM) if NAMES[each.lane] == f"worker {who[-1]}"]
    return is_it and (at is None or first_at(at, asked))


@claim(rf", and {WHO} finished it at {AT}")
def _(story: Story, token: str, at: str, **_: str) -> bool:
    return story.won == int(token) and first_at(at, story.after(What.WON))


@claim(": nobody was refused")
def _(story: Story) -> bool:
    return not story.all(*REFUSALS)


@claim(", no retry was used up")
def _(story: Story) -> bool:
    return not story.all(*LOSSES)


@claim(rf"(?P<name>Worker [AB]) crashed at {AT}")
def _(story: Story, name: str, at: str) -> bool:
    crash = story.all(What.CRASH)[0]
    return NAMES[crash.lane] == f"worker {name[-1]}" and story.is_about([crash], at, crash.token)


@claim(r", after its settle \(token (?P<token>\d+)\) was written: the job was finished, nobody ran it again")
def _(story: Story, token: str) -> bool:
    is_its = int(token) == story.token == story.won
    return is_its and bool(story.before(What.WON)) and not story.after(What.GRANT)


@claim(r", and the ledger sent the one answer without it\.$")
def _(story: Story) -> bool:
    return len(story.all(What.ANNOUNCE)) == 1


@claim(" (?P<where>with its file stored and nothing settled|in the middle of the job)")
def _(story: Story, where: str) -> bool:
    is_stored = bool(story.before(*WRITES, token=story.token))
    return is_stored is where.startswith("with") and not story.all(What.WON, What.LOST, token=story.token)


@claim(rf": its lease \((?P<token>\d+)\) (?P<how>expired|ended) at {AT}")
def _(story: Story, token: str, how: str, at: str, **_: str) -> bool:
    ends = story.all(*ENDS, token=int(token))
    return int(token) == story.token and first_at(at, ends) and (ends[0].what is What.EXPIRE) is (how == "expired")


@claim(rf"[:,] {WHO} ran the job again and settled at {AT}")
def _(story: Story, token: str, at: str, **_: str) -> bool:
    return story.won == int(token) > story.token and first_at(at, story.all(What.WON))


@claim(r", so it ran (?P<n>twice|\d+ times), and one result and one answer came of it\.$")
def _(story: Story, n: str) -> bool:
    runs = 2 if n == "twice" else int(n.removesuffix(" times"))
    return len(story.all(What.GRANT)) == runs and len(story.all(What.ANNOUNCE)) == 1 and story.won is not None


# --- nobody in its way ---


def is_alone(story: Story) -> bool:
    return len(story.all(What.GRANT)) == 1 and not story.all(*ENDS)


@claim(rf"Nobody got in the way: {WHO} settled at {AT}")
def _(story: Story, token: str, at: str, **_: str) -> bool:
    is_it = story.is_about(story.all(What.WON, token=int(token)), at, int(token))
    return is_it and is_alone(story) and not story.before(*TROUBLES)


@claim(rf"Nobody took over while the orchestrator stood still: {WHO} settled at {AT}")
def _(story: Story, token: str, at: str, **_: str) -> bool:
    is_it = story.is_about(story.all(What.WON, token=int(token)), at, int(token))
    return is_it and is_alone(story) and [each.lane for each in story.before(*TROUBLES)] == [Lane.LEDGER]


@claim(rf"Nobody took over: {WHO} still held its lease when it settled at {AT}")
def _(story: Story, token: str, at: str, **_: str) -> bool:
    is_it = story.is_about(story.all(What.WON, token=int(token)), at, int(token))
    return is_it and is_alone(story) and bool(story.before(*TROUBLES))


@claim(rf"The job was started (?P<n>\d+) times; {WHO} settled at {AT}")
def _(story: Story, n: str, token: str, at: str, **_: str) -> bool:
    return len(story.all(What.GRANT)) == int(n) and story.is_about(
        story.all(What.WON, token=int(token)), at, int(token)
    )


@claim(r"(,|:) one (result, one )?answer\.$")
def _(story: Story) -> bool:
    return [each.token for each in story.all(What.ANNOUNCE)] == [story.won]
