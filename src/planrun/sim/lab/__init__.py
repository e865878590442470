"""The lease lab: one job, two workers, one fault, and what a reader should learn from it.

The shipped code runs in the simulator; here is what it is told (`settings`), what it leaves behind (`history`), and how
that is said (`telling`).
"""
