"""What job code imports, and the runner inside the job process. Standard library only.

    from planrun.jobs import job, JobContext, Permanent

    @job("preview", version="v2", needs=["ffmpeg"])
    def preview(j: JobContext):
        out = j.scratch / "preview.mp4"
        render(j.inputs["upload"], out, on_progress=j.progress)
        return {"preview": out}

A job gets a folder, its inputs as files and a progress reporter, and nothing that leads to a store, a
queue or a ledger. Reading order: `declaration` (`@job`), `context` (what a job gets), `answer` and
`failure` (what becomes of its return value or exception), `channel`, `runner`, `describe`; then `exec_kind`
(`command`), `child` and `spoken`, for jobs in other languages.
"""

from planrun.core.errors import Fatal, Permanent, Transient
from planrun.jobs.context import JobContext, Progress, Stopped
from planrun.jobs.declaration import capability, job
from planrun.jobs.exec_kind import command

__all__ = ["Fatal", "JobContext", "Permanent", "Progress", "Stopped", "Transient", "capability", "command", "job"]
