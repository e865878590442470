"""A world in which the shipped code runs: one seed, one history. See docs/internals/simulator.md."""
