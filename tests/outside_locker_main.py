"""A program that is not planrun and locks the file: `python -m tests.outside_locker_main FILE SECONDS…`.

Holds the lock for so many seconds each, with a second between; prints a line when it has it.
"""

from __future__ import annotations

import sqlite3
import sys
import time


def main(file: str, *holds: str) -> None:
    connection = sqlite3.connect(file, isolation_level=None, timeout=60)
    for seconds in holds:
        connection.execute("BEGIN EXCLUSIVE")
        print("locked", flush=True)
        time.sleep(float(seconds))
        connection.execute("ROLLBACK")
        time.sleep(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
