"""The shipped code, in virtual time."""
