"""The worker: takes an offer, passes the gates, gets the lease, runs the job process, uploads, settles.

It decides nothing about a job's fate: the ledger does. Reading order: `options`, `supervisor` (the
loop), `attempt` (one job from grant to settle), `keeper` (all leases), `gates`, `orders` (deploys),
`process` and `launcher` (the job's process tree), `isolation` (how surely that tree dies).
"""
