"""Which addresses are asked because somebody else named them."""

from __future__ import annotations

import pytest

from planrun.core.addresses import Allowed, allowed_from, is_public
from planrun.core.errors import Invalid

METADATA = "169.254.169.254"


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
)
def test_these_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.0.9",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.5.4",
        "192.168.1.1",
        METADATA,
        "100.64.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%lo",
        "fc00::1",
        "fd00:ec2::254",
        "fec0::1",
        "ff02::1",
        f"::ffff:{METADATA}",
        "::ffff:127.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "2001:0:1:1:1:1:80ff:fffe",
    ],
)
def test_these_are_not(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    ("pattern", "host", "address", "fits"),
    [
        ("app.internal", "app.internal", "10.0.0.7", True),
        ("app.internal", "APP.internal.", "10.0.0.7", True),
        ("app.internal", "www.app.internal", "10.0.0.7", False),
        ("app.internal", "app.internal", METADATA, False),
        ("app.internal", "app.internal", f"::ffff:{METADATA}", False),
        ("*.internal", "app.internal", "127.0.0.1", True),
        ("*.internal", "internal", "127.0.0.1", False),
        ("*.internal", "evilinternal", "127.0.0.1", False),
        ("10.1.0.0/16", "whatever", "10.1.2.3", True),
        ("10.1.0.0/16", "whatever", "::ffff:10.1.2.3", True),
        ("10.1.0.0/16", "whatever", "10.2.2.3", False),
        ("127.0.0.1", "localhost", "127.0.0.1", True),
        ("127.0.0.1", "localhost", "::1", False),
        (METADATA, "metadata", METADATA, True),
    ],
)
def test_what_is_allowed_besides(pattern: str, host: str, address: str, fits: bool) -> None:
    assert allowed_from([pattern]).has(host, address) == fits


def test_public_addresses_need_no_permission() -> None:
    assert Allowed().has("app.example", "1.1.1.1")
    assert not Allowed().has("localhost", "127.0.0.1")


@pytest.mark.parametrize(
    "pattern", ["", "*", "*.", "https://app.example", "app.example:80", "10.1.0.1/16", "1.2.3", "a b", "a.*"]
)
def test_what_allows_nothing_is_said(pattern: str) -> None:
    with pytest.raises(Invalid, match="allows nothing: write a name"):
        allowed_from([pattern])
