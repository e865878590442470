"""renderbox: video previews as planrun jobs.

    planrun worker renderbox

Importing this module declares its one kind, `preview` version `v1`; see `renderbox.jobs`.
"""

from renderbox.jobs import preview

__all__ = ["preview"]
