"""The page at `/`: what is here, for whoever opens the address in a browser."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.metadata import version

from planrun.web.openapi import summary_of
from planrun.web.routes import Route

PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>planrun</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }}
table {{ border-collapse: collapse; }}
td {{ border-top: 1px solid #8884; padding: .3rem 1rem .3rem 0; vertical-align: top; }}
code {{ font-size: .9em; white-space: nowrap; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #111; color: #ddd; }} a {{ color: #8bf; }} }}
</style>
<h1>planrun {version}</h1>
<p>Long jobs that finish exactly once. This is the HTTP API; <a href="/openapi.json">openapi.json</a> describes it
for programs.</p>
<table>
{rows}
</table>
</html>
"""
POLICY = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"}


def page_of(routes: Sequence[Route]) -> str:
    """The page, as HTML."""
    rows = (
        f"<tr><td><code>{route.method} {_linked(route)}</code><td>{escape(summary_of(route))}</tr>" for route in routes
    )
    return PAGE.format(version=escape(version("planrun")), rows="\n".join(rows))


def _linked(route: Route) -> str:
    if route.method != "GET" or "{" in route.path:
        return escape(route.path)
    return f'<a href="{escape(route.path)}">{escape(route.path)}</a>'
