"""What is said of a run follows from its facts, whatever it was told to be."""

from __future__ import annotations

import random
from collections.abc import Sequence
from urllib.parse import parse_qsl

import msgspec
import pytest

from planrun.sim.lab.drawing import history_of
from planrun.sim.lab.history import Bar, Fact, History, Lane, Tone, What
from planrun.sim.lab.settings import PRESETS, Choice, Fault, Moment, Preset, Settings, Switch, command_of, link_of
from tests.sim.lab_facts import LEDGER, STORE, A, B, fact, stalled


def told(facts: Sequence[Fact], settings: Settings | None = None) -> History:
    return history_of(facts, settings or Settings())


def began(*more: Fact) -> list[Fact]:
    return [fact(0, LEDGER, What.SUBMIT), fact(0, A, What.GRANT, 33), *more]


def b_did_it(at_s: float) -> list[Fact]:
    return [
        fact(at_s, B, What.GRANT, 34),
        fact(at_s + 1, STORE, What.STORE, 34, by=B),
        fact(at_s + 1, LEDGER, What.WON, 34, by=B),
        fact(at_s + 1, LEDGER, What.ANNOUNCE, 34),
    ]


def test_who_overwrote_whom() -> None:
    history = told(stalled(fencing=False))

    assert history.sentence == (
        "At 14 s worker A (token 33), whose lease expired at 10 s, overwrote the result that worker B (token 34) had "
        "stored at 11 s; the answer that went out now points at the wrong bytes."
    )
    assert (history.tone, history.tally.overwritten, history.tally.answers) == (Tone.HARM, 1, 1)


def test_who_was_refused_by_the_store_and_why() -> None:
    history = told(stalled(fencing=True))

    assert history.sentence.startswith("At 14 s the store refused the late write of worker A (token 33)")
    assert "already taken token 34 from worker B" in history.sentence
    assert (history.tone, history.tally.overwritten) == (Tone.GUARD, 0)


def test_who_was_refused_by_the_ledger_and_why() -> None:
    history = told(stalled(fencing=False, attempt_keys=True), Settings(attempt_keys=True))

    assert history.sentence.startswith("At 14 s the ledger refused worker A (token 33), whose lease expired at 10 s")
    assert "under a key of its own, which nobody reads" in history.sentence


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ([fact(4, LEDGER, What.WON, 33, by=A)], "Nobody got in the way"),
        ([fact(2, A, What.FREEZE), fact(4, A, What.THAW), fact(5, LEDGER, What.WON, 33, by=A)], "Nobody took over"),
        ([fact(4, LEDGER, What.WON, 33, by=A), fact(5, A, What.CRASH, 33)], "nobody ran it again"),
        (
            [fact(3, A, What.CRASH, 33), fact(4, LEDGER, What.PROOF, 33, by=A), *b_did_it(4)],
            "crashed at 3 s in the middle of the job: its lease (33) ended at 4 s",
        ),
        (
            [
                fact(2, STORE, What.STORE, 33, by=A),
                fact(3, A, What.CRASH, 33),
                fact(9, LEDGER, What.EXPIRE, 33, by=A),
                *b_did_it(9),
            ],
            "with its file stored and nothing settled: its lease (33) expired at 9 s",
        ),
        (
            [fact(3, A, What.TERM), fact(3, LEDGER, What.BACK, 33, by=A), *b_did_it(3)],
            "Told to stop at 3 s, worker A (token 33) handed the job back",
        ),
        (
            [fact(9, LEDGER, What.EXPIRE, 33, by=A), *b_did_it(9), fact(12, A, What.NEWS, 33)],
            "heard that it had lost the lease",
        ),
        (
            [fact(9, LEDGER, What.EXPIRE, 33, by=A), *b_did_it(9), fact(12, A, What.NOT_HELD, 33)],
            "was told that it no longer held the lease",
        ),
        (
            [fact(9, LEDGER, What.EXPIRE, 33, by=A), fact(9, LEDGER, What.FAILED, 33, by=A)],
            "At 9 s the ledger gave the job up after losing an attempt",
        ),
        ([], "has not ended"),
    ],
)
def test_the_sentence_is_about_what_happened(facts: Sequence[Fact], words: str) -> None:
    assert words in told(began(*facts)).sentence


def test_every_thing_that_can_happen_has_a_line() -> None:
    lanes = {
        What.GRANT: A, What.RENEW: A, What.UNHEARD: A, What.NEWS: A, What.THAW: A, What.TERM: A, What.CUT: A,
        What.HEAL: A, What.HELD: A, What.TRUSTS: A, What.NOT_HELD: A, What.UPLOAD: A, What.STOPPED: A,
    }  # fmt: skip
    facts = [fact(1, lanes.get(what, LEDGER), what, 33, by=None if what in lanes else A, than=34) for what in What]
    both = [*facts, *(fact(1, A, what, 33) for what in (What.FREEZE, What.CRASH, What.START))]
    lines = [point.says for point in told(both).points]

    assert all(line[0].isupper() and len(line) > 5 for line in lines)
    assert len(set(lines)) == len(lines)


def test_what_lasts_is_drawn_from_the_facts() -> None:
    history = told(stalled(fencing=False))
    spans = {(span.lane, span.bar, span.token): (span.from_ms, span.to_ms) for span in history.spans}

    assert spans[Lane.LEDGER, Bar.HOLDS, 33] == (0, 10_000)
    assert spans[Lane.LEDGER, Bar.HOLDS, 34] == (10_000, 11_000)
    assert spans[Lane.A, Bar.FROZEN, None] == (2_000, 14_000)
    assert spans[Lane.A, Bar.UPLOADS, 33] == (1_500, 14_000)
    assert spans[Lane.STORE, Bar.READS, 34] == (11_000, 14_000)
    assert spans[Lane.STORE, Bar.READS, 33] == (14_000, history.until_ms)


def test_a_choice_is_a_preset_with_something_else() -> None:
    chosen = Choice(preset=Preset.CRASH, lease_s=12.34, fencing=Switch.ON, attempt_keys=Switch.OFF).settings()

    assert (chosen.lease_s, chosen.fencing, chosen.fault) == (12.3, True, PRESETS[Preset.CRASH].fault)
    assert command_of(chosen) == "planrun lab crash --lease-s 12.3 --fencing on --attempt-keys off"
    assert "lease_s=12.3" in link_of(chosen) and "seed=1" in link_of(chosen)


def test_what_changes_nothing_is_neither_in_the_command_nor_in_the_link() -> None:
    plain = Choice(preset=Preset.CRASH).settings()
    chosen = Choice(preset=Preset.CRASH, at_s=1, fencing=Switch.ON).settings()

    assert (chosen, command_of(chosen)) == (plain, "planrun lab crash")
    assert command_of(msgspec.structs.replace(plain, at_s=1.0, fencing=True)) == "planrun lab crash"
    assert not {"at_s", "fencing"} & dict(parse_qsl(link_of(plain))).keys()
    assert command_of(Choice(fault=Fault.NONE, moment=Moment.UPLOAD, at_s=9, for_s=3).settings()) == (
        "planrun lab stalled --fault none"
    )


@pytest.mark.parametrize("seed", range(50))
def test_the_command_and_the_link_are_the_same_run_and_every_word_of_them_counts(seed: int) -> None:
    settings = drawn(random.Random(seed))
    preset, *words = command_of(settings).removeprefix("planrun lab ").split()
    told = {flag[2:].replace("-", "_"): word for flag, word in zip(words[::2], words[1::2], strict=True)}

    for chosen in ({"preset": preset, **told}, dict(parse_qsl(link_of(settings)))):
        assert msgspec.convert(chosen, Choice, strict=False).settings() == settings
        assert not chosen.keys() & settings.idle.keys()


def drawn(chance: random.Random) -> Settings:
    """Of a choice with anything in it, whether it has an effect or not."""
    return Choice(
        preset=chance.choice([*Preset]),
        seed=chance.randrange(9),
        fault=chance.choice([None, *Fault]),
        moment=chance.choice([None, *Moment]),
        at_s=chance.choice([None, 1.5]),
        for_s=chance.choice([None, 2.5]),
        job_b_s=chance.choice([None, 0.1]),
        fencing=chance.choice([None, *Switch]),
        attempt_keys=chance.choice([None, *Switch]),
    ).settings()
