"""What repeats is said once a minute."""

from __future__ import annotations

import logging

import pytest

from planrun.complaints import SAME_EVERY_MS, Complaints
from tests.contract.manual_clock import ManualClock


def test_what_repeats_is_said_once_a_minute_and_then_counted(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    complaints = Complaints(logging.getLogger("test"), clock)
    for number in range(300):
        complaints.say("dead", f"message {number}", level=logging.ERROR)
    complaints.say("disk", "full")
    assert caplog.record_tuples == [("test", logging.ERROR, "message 0"), ("test", logging.WARNING, "full")]

    clock.advance(SAME_EVERY_MS / 1000)
    complaints.say("dead", "message 300")
    assert caplog.messages[2:] == ["message 300 (and 299 more of the kind since it was last said)"]
    clock.advance(SAME_EVERY_MS / 1000)
    complaints.say("dead", "message 301")
    assert caplog.messages[3:] == ["message 301"]


def test_what_was_over_is_news_when_it_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    complaints = Complaints(logging.getLogger("test"), ManualClock())
    assert not complaints.over("disk")
    complaints.say("disk", "full")
    complaints.say("disk", "full")
    assert complaints.over("disk")
    complaints.say("disk", "full again")
    assert caplog.messages == ["full", "full again"]
