"""The same job done by a shell script and by a program for Node.

planrun worker exec_jobs &
planrun submit words-sh --input text=words.c --wait
"""

from __future__ import annotations

from planrun.jobs import command

command("words-sh", ["./words.sh", "{inputs.text}"], stall_s=120)
command("words-node", ["node", "{here}/words.mjs"], needs=["node"], stall_s=120)
