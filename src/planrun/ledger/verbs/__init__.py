"""What each verb of the ledger does, inside one transaction, for every dialect.

The rules come from `core`; the statements in `sql/<dialect>/` carry the fences. Nothing here reads a
clock, and nothing here commits.
"""
