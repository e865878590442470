"""The same job done by a program in C.

cc -o words words.c
planrun worker c_jobs &
planrun submit words-c --input text=words.c --wait
"""

from __future__ import annotations

from planrun.jobs import command

command("words-c", ["./words", "{inputs.text}"], stall_s=120)
