"""The four flows between orchestrator and workers: offers, beats, control, outlet. Hints only: the ledger decides."""
