"""What an application imports: submit, wait, cancel, look. Async, with a synchronous facade over the same code.

Reading order: `content` (what a submit says), `async_client` (the verbs), `waiting`, `looking` (those that only read),
`answer` (what comes back), `sync` (the facade).
"""

from planrun.client.answer import Answer, OutputFile
from planrun.client.async_client import AsyncClient
from planrun.client.content import Submit, SubmitOptions
from planrun.client.handle import AsyncJobHandle
from planrun.client.looking import JobPage
from planrun.client.sync import Client, JobHandle
from planrun.client.waiting import Progress

__all__ = [
    "Answer",
    "AsyncClient",
    "AsyncJobHandle",
    "Client",
    "JobHandle",
    "JobPage",
    "OutputFile",
    "Progress",
    "Submit",
    "SubmitOptions",
]
