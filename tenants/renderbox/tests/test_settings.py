from __future__ import annotations

from typing import Any

import pytest

from planrun.jobs import Permanent
from renderbox.settings import Settings, settings_from


def test_nothing_given_means_the_defaults() -> None:
    assert settings_from({}) == Settings(filters="", crf=23, preset="fast")


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"crv": 20}, "unknown params: crv; preview knows crf, filters, preset"),
        ({"crf": "20"}, "crf must be a whole number from 0 to 51, not '20'"),
        ({"crf": 52}, "not 52"),
        ({"crf": True}, "not True"),
        ({"crf": 20.5}, "not 20.5"),
        ({"preset": "placebo"}, "preset must be one of"),
        ({"preset": ["fast"]}, "preset must be one of"),
        ({"filters": None}, "filters must be a text"),
        ({"filters": "x" * 4001}, "at most 4000 characters"),
    ],
)
def test_a_wrong_param_is_named(params: dict[str, Any], named: str) -> None:
    with pytest.raises(Permanent) as caught:
        settings_from(params)

    assert caught.value.code == "bad-params"
    assert named in str(caught.value)


@pytest.mark.parametrize("chain", ["drawtext=text='it'\\''s'", "drawtext=text=a\\'b", "hue=s=0", "drawtext=text='\\'"])
def test_a_chain_with_closed_quotes_passes(chain: str) -> None:
    assert settings_from({"filters": chain}).filters == chain
