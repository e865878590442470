"""What a dispatcher remembers of the offers that are out."""

from __future__ import annotations

from planrun.core.offers import Offer
from planrun.orchestrator.offered import Offered

OFFER = Offer(job_id="job", attempt=1, namespace="default", kind="preview", version="v1")


def shown_in_three_lanes() -> Offered:
    offered = Offered()
    for at_ms, lane in enumerate(("first", "second", "third")):
        offered.add(lane, OFFER, at_ms)
    return offered


def test_what_happens_to_a_job_ends_its_offers_in_every_lane() -> None:
    offered = shown_in_three_lanes()
    offered.changed(["job"], 5)

    for lane in ("first", "second", "third"):
        assert dict(offered.in_lane(lane)) == {}, "it would take the place of another one there"
        assert offered.taken_lately(lane, 5) == 1
    assert (offered.last_ms("job"), offered.count("default")) == (None, 0)


def test_what_was_lost_in_one_lane_is_out_in_the_others() -> None:
    offered = shown_in_three_lanes()
    offered.drop("third", ["job"])

    assert [len(offered.in_lane(lane)) for lane in ("first", "second", "third")] == [1, 1, 0]
    assert (offered.last_ms("job"), offered.count("default")) == (1, 1)
