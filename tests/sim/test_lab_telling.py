"""What is said of a run follows from its facts, whatever it was told to be."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from planrun.sim.lab.drawing import history_of
from planrun.sim.lab.history import Bar, Fact, History, Lane, Tone, What
from planrun.sim.lab.run import run
from planrun.sim.lab.settings import PRESETS, Choice, Preset, Settings, Switch, command_of, link_of
from tests.sim.lab_claims import untrue
from tests.sim.lab_facts import LEDGER, STORE, A, B, by_chance, fact, outrun, stalled


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
    ("settings", "where", "tone"),
    [
        (
            Settings(),
            "the lab store had taken its file, and readers got it until worker B (token 34) replaced it at 16.5 s: "
            "in the end one result, one answer.",
            Tone.TROUBLE,
        ),
        (
            Settings(fencing=True),
            "the lab store, which had seen no newer token, had taken its file, and readers got it until worker B "
            "(token 34) replaced it at 16.5 s: in the end one result, one answer.",
            Tone.TROUBLE,
        ),
        (
            Settings(attempt_keys=True),
            "its file lies under a key of its own, which nobody reads: one result, one answer.",
            Tone.GUARD,
        ),
    ],
    ids=["one key", "fencing", "a key for each attempt"],
)
def test_who_stores_first_is_refused_too_late_by_the_ledger(settings: Settings, where: str, tone: Tone) -> None:
    """A store that checks tokens takes an old one as long as it has seen none that is newer."""
    history = told(outrun(attempt_keys=settings.attempt_keys), settings)

    assert history.sentence == (
        "At 14 s the ledger refused worker A (token 33), whose lease expired at 10 s, because worker B (token 34) had "
        f"taken over; {where}"
    )
    assert (history.tone, untrue(history)) == (tone, "")
    assert [point.tone for point in history.points if point.what in (What.STORE, What.ASIDE) and point.by is A] == [
        tone
    ]


def test_who_had_taken_over_is_not_who_won_in_the_end() -> None:
    """Whose lease runs out, too, has taken over all the same."""
    facts = [
        fact(10, LEDGER, What.EXPIRE, 33, by=A),
        fact(10, B, What.GRANT, 34),
        fact(14, LEDGER, What.LOST, 33, by=A),
    ]
    again = [fact(18, LEDGER, What.EXPIRE, 34, by=B), fact(19, A, What.GRANT, 35), fact(20, LEDGER, What.WON, 35, by=A)]
    keys = Settings(attempt_keys=True)
    history = told(began(*facts, *again, fact(20, LEDGER, What.ANNOUNCE, 35)), keys)

    assert "because worker B (token 34) had taken over; worker A (token 35) did the job" in history.sentence
    assert untrue(history) == ""


def test_who_settles_before_anybody_took_over_is_refused_because_its_lease_is_over() -> None:
    history = told(
        began(
            fact(10, LEDGER, What.EXPIRE, 33, by=A),
            fact(14, LEDGER, What.LOST, 33, by=A),
            *b_did_it(18),
        ),
        Settings(attempt_keys=True),
    )

    assert "because the job was back in line; worker B (token 34) did the job" in history.sentence
    assert untrue(history) == ""


@pytest.mark.slow
@pytest.mark.parametrize("block", range(24))
def test_whatever_goes_wrong_every_clause_of_the_sentence_is_true(block: int) -> None:
    """And one answer goes out; only the lab store without tokens is ever overwritten."""
    for seed in range(10 * block, 10 * block + 10):
        history = run(by_chance(seed))
        settings, tally = history.settings, history.tally
        ends = [point for point in history.points if point.what in (What.WON, What.FAILED)]

        assert untrue(history) == "", (seed, history.sentence)
        assert tally.answers == len(ends) == 1 or (settings.is_hopeless and not ends), (seed, history.sentence)
        assert not tally.overwritten or not (settings.fencing or settings.attempt_keys), seed


@pytest.mark.parametrize(
    ("words", "others"),
    [
        ("14 s", "13 s"),
        ("10 s", "9 s"),
        ("worker A (token 33)", "worker B (token 34)"),
        ("worker A (token 33)", "worker B (token 33)"),
        ("because worker B (token 34) had taken over", "because the job was back in line"),
        ("16.5 s", "14 s"),
        (
            "the lab store had taken its file, and readers got it",
            "its file lies under a key of its own, which nobody reads",
        ),
        ("the lab store had", "the lab store, which had seen no newer token, had"),
        ("in the end one", "one"),
        ("one answer", "two answers"),
    ],
)
def test_a_sentence_that_is_not_true_is_found(words: str, others: str) -> None:
    history = told(outrun())
    assert words in history.sentence and untrue(history) == ""

    assert untrue(msgspec.structs.replace(history, sentence=history.sentence.replace(words, others)))


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
    chosen = Choice(preset=Preset.CRASH, lease_s=12.34, fencing=Switch.ON).settings()

    assert (chosen.lease_s, chosen.fencing, chosen.fault) == (12.3, True, PRESETS[Preset.CRASH].fault)
    assert command_of(chosen) == "planrun lab crash --lease-s 12.3 --fencing on"
    assert "lease_s=12.3" in link_of(chosen) and "seed=1" in link_of(chosen)
