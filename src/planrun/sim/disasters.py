"""What may happen to the ledger's machine and its disk, and to the store's word: said beforehand, as in `script`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw

from planrun.sim.disk import Copy, Disk
from planrun.sim.script import Script

if TYPE_CHECKING:
    from planrun.sim.fleet import Hub


class Disasters(Script):
    """Acts of a script that strike the ledger.

    Attributes:
        disk: Of the ledger's machine.
        hub: The orchestrator of a fleet.
    """

    disk: Disk
    hub: Hub

    def disk_full(self, *, from_s: float, until_s: float) -> None:
        """No commit of the ledger is taken; on a box, whose store is on that disk, no upload either."""

        def fill(is_full: bool) -> None:
            self.disk.refusal = apsw.FullError("database or disk is full") if is_full else None
            self.store.full = is_full and "orchestrator" not in self.machines
            self.say("disk", "is full" if is_full else "has room again")

        self.at(from_s, lambda: fill(True))
        self.at(until_s, lambda: fill(False))

    def disk_errs(self, *, from_s: float, until_s: float, share: float = 0.5) -> None:
        """Commits of the ledger end with an I/O error; the half of those stands all the same.

        Args:
            share: Which part of all commits.
        """
        chance = self.chance_of("disk")

        def draw() -> int:
            return chance.randrange(2) if chance.random() < share else 2

        def err(is_bad: bool) -> None:
            self.disk.err = draw if is_bad else None
            self.say("disk", "has I/O errors" if is_bad else "has no more errors")

        self.at(from_s, lambda: err(True))
        self.at(until_s, lambda: err(False))

    def cut_power(self, name: str, *, at_s: float, lost_s: float = 1.0) -> None:
        """The machine of a party, and the ledger's with it, goes dark and is booted again.

        Args:
            lost_s: Commits of that time are lost, where one need not be on the disk before it is answered.
        """
        copies: list[Copy] = []

        def look() -> None:
            if self.disk.is_hasty():
                copies.append(self.disk.copy())

        def cut() -> None:
            self._reboot(self.machines[name].hardware)
            if copies:
                self.say("disk", f"has lost the commits of {lost_s:g} s")
                self.put_back(copies[0])

        self.at(max(0.0, at_s - lost_s), look)
        self.at(at_s, cut)

    def restore(self, *, copied_s: float, at_s: float, recover_s: float, is_backup: bool = True) -> None:
        """The orchestrator dies, and an older copy of its ledger takes the place of that.

        Args:
            copied_s: From when that is.
            recover_s: When the operator says `--recover`, once; until then it is started without.
            is_backup: `planrun backup` has made it; else some other program, or the disk itself, which lost the rest.
        """
        copies: list[Copy] = []

        def put_back() -> None:
            self.hub.crash()
            self.say("operator", f"restores the ledger of {copied_s:g} s")
            self.disk.put_back(copies[0], is_backup=is_backup)
            self.checks.restored()

        def recover() -> None:
            self.say("operator", "says --recover")
            self.hub.recovers = True

        self.at(copied_s, lambda: copies.append(self.disk.copy()))
        self.at(at_s, put_back)
        self.at(recover_s, recover)

    def put_back(self, copy: Copy) -> None:
        """The ledger's file is another one now; nobody who lives has it open."""
        self.disk.put_back(copy)
        self.checks.close()

    def store_lies(self, *, from_s: float, until_s: float) -> None:
        """The store overwrites where it was asked to create only."""

        def lie(is_so: bool) -> None:
            self.store.honours_absent = not is_so
            self.say("store", "overwrites what is there" if is_so else "creates once again")

        self.at(from_s, lambda: lie(True))
        self.at(until_s, lambda: lie(False))
