"""The ledger of an orchestrator, over HTTP."""
