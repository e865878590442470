"""What planrun decides, as pure functions: no clock, no disk, no network, no randomness.

Reading order: `life` (the states of a job), `budget` (what may still go wrong), `lease` (who
may act and until when), `admission` and `routing` (may this worker take it), `names` (ids, keys,
tokens) and `messages` (what the parts say to each other).
"""
