"""Which addresses of the network planrun asks because somebody else named them: a receiver's, an input's.

Whoever hands in a job may name any address, and this machine may reach more than they can: services that give out
credentials to whoever asks from here, databases, its own ports. So public addresses alone are asked, and what an
operator allows besides. Judged is what a name *resolved* to, never the name, and that very address is connected to.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from planrun.core.errors import Invalid

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_HOST = re.compile(r"(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """May anybody reach it? Not: loopback, private, link-local (where metadata services are), shared, reserved."""
    return _is_public(_plain(address))


@dataclass(frozen=True, slots=True)
class Allowed:
    """Public addresses, and these besides.

    Attributes:
        hosts: Names as they are asked for; `*.example.org` stands for every name below. They may resolve to any
            address but a link-local one: who allows a name trusts whoever answers for it, not with credentials.
        networks: Addresses that may be asked under whatever name.
    """

    hosts: tuple[str, ...] = ()
    networks: tuple[Network, ...] = ()

    def check(self, host: str, addresses: Iterable[str], *, option: str) -> list[str]:
        """Those of the addresses of a host that a connection may go to.

        Args:
            option: With which an operator allows more.

        Raises:
            Invalid: None of them.
        """
        found = list(addresses)
        judged = [address for address in found if self.has(host, address)]
        if not judged:
            raise Invalid(f"{host} is {', '.join(found)}, which is not public; to allow it: {option} {host}")
        return judged

    def has(self, host: str, address: str) -> bool:
        """May a connection go there?

        Args:
            host: As it was named.
            address: What it resolved to.
        """
        plain = _plain(address)
        if any(plain in network for network in self.networks):
            return True
        return _is_public(plain) or (not plain.is_link_local and any(_fits(host, wanted) for wanted in self.hosts))


def allowed_from(patterns: Sequence[str]) -> Allowed:
    """Read what an operator allows.

    Args:
        patterns: Names, `*.` and a name, addresses, networks such as 10.1.0.0/16.

    Raises:
        Invalid: None of these.
    """
    hosts: list[str] = []
    networks: list[Network] = []
    for pattern in patterns:
        try:
            networks.append(ipaddress.ip_network(pattern))
        except ValueError:
            if not _HOST.fullmatch(pattern.lower()) or re.fullmatch(r"[0-9.]+", pattern):
                raise Invalid(
                    f"{pattern!r:.200} allows nothing: write a name such as app.internal or *.example.org, "
                    "an address, or a network such as 10.1.0.0/16"
                ) from None
            hosts.append(_canonical(pattern))
    return Allowed(tuple(hosts), tuple(networks))


def is_literal(host: str) -> bool:
    """Is it an address itself, and no name?"""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _plain(address: str) -> Address:
    """The IPv4 address that an IPv6 one may stand for: both lead to the same machine."""
    found = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv4Address):
        return found
    if found in _NAT64:
        return ipaddress.IPv4Address(int(found) & 0xFFFF_FFFF)
    teredo = found.teredo
    return found.ipv4_mapped or found.sixtofour or (teredo[1] if teredo is not None else found)


def _is_public(address: Address) -> bool:
    # A deprecated kind of private address that the standard library still calls global.
    is_site_local = isinstance(address, ipaddress.IPv6Address) and address.is_site_local
    return address.is_global and not (address.is_multicast or address.is_reserved or is_site_local)


def _fits(host: str, wanted: str) -> bool:
    name = _canonical(host)
    return name.endswith(wanted[1:]) if wanted.startswith("*.") else name == wanted


def _canonical(host: str) -> str:
    return host.lower().rstrip(".")
