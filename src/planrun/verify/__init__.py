"""`planrun verify`: a bounded torture of one installation, in a namespace and with workers of its own.

Reading order: `plan` (what is asked and done, from a seed), `crew` (the workers, and what happens to them; `sight` aims
for it), `run` (asking, waiting, looking), `story` (what was seen of one job), `ends` (how it may end), `observer`
(counting, and what has to hold), `report`. `kinds` is what its workers run; job processes import it, and this file
takes nothing along.
"""
