"""The HTTP API: what the client can do, for whoever speaks HTTP. Needs the extra `web`.

Rules of jobs are the client's; here are only the form and the door.

Reading order: `routes` (the one table), `jobs`, `following` and `operating` (what each route does), `bodies` (what
goes in and out), `problems` (what errors look like), `door` (who may), `openapi` (the table, for programs),
`server` (the thread that serves it).
"""
