"""The contract of the access tokens, kept by the ledger's file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from planrun.ledger.keyring import Keyring
from planrun.wiring import open_keyring

from .keyring_contract import ONE, KeyringContract, a_token
from .manual_clock import ManualClock


class TestKeyring(KeyringContract):
    @pytest.fixture
    async def keyring(self, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Keyring]:
        keyring = open_keyring(f"sqlite:///{tmp_path}/ledger.db", clock=clock)
        yield keyring
        await keyring.close()

    async def test_nothing_in_the_file_lets_anybody_in(self, keyring: Keyring, tmp_path: Path) -> None:
        await keyring.create(a_token())

        kept = b"".join(file.read_bytes() for file in tmp_path.glob("ledger.db*") if file.is_file())

        assert ONE.split("_")[2].encode() not in kept
