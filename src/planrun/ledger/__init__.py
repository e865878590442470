"""The ledger: the one record of which job runs where."""
