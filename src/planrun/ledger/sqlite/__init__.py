"""The ledger as one SQLite file that several processes share.

`database` opens the file safely, `turnstile` lets one process write at a time and in turn, `writer`
gathers what waits into one commit, `wakeup` tells the others, `ledger` is the port.
"""
