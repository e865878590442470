"""The long runs: each module here is one, with a `main(minutes: float | None) -> int`.

`minutes` is a wish for a sample of about that length, None is the full run; 0 means that everything held.
The first line of a module's docstring says what it shows. `python -m tests.soak` lists them.
"""
