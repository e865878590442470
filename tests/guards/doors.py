"""What keeps strangers out of the HTTP API, and lets those who wait go when it stops."""

from __future__ import annotations

from .fences import Fence


def door(name: str, old: str, new: str, test: str, *, file: str = "door") -> Fence:
    return Fence(name, f"web/{file}.py", old, new, (f"tests/web/{test}",))


DOORS = [
    door(
        "a stranger's name is refused",
        "not is_own_name(host) and not await self._guard.asks()",
        "False",
        "test_door.py::test_a_strangers_name_that_points_here_is_refused",
    ),
    door(
        "a page of another site is refused by its origin",
        "urlsplit(origin).netloc != host",
        "False",
        "test_door.py::test_a_page_of_another_site_can_do_nothing",
    ),
    door(
        "a page of another site is refused by what its browser says",
        'headers.get("sec-fetch-site") == "cross-site"',
        "False",
        "test_door.py::test_a_page_of_another_site_can_do_nothing",
    ),
    door(
        "a wrong secret opens nothing",
        "hmac.compare_digest(text.encode(), self._secret)",
        "text",
        "test_door.py::test_with_a_token_everything_but_health_and_the_description_asks_for_it",
        file="guard",
    ),
    door(
        "a token is more than its id",
        "token is None or not token.matches(text)",
        "token is None",
        "test_tokens.py::test_every_route_refuses_what_is_no_valid_token",
        file="guard",
    ),
    door(
        "a revoked token opens nothing",
        "if token.revoked_at_ms is not None:",
        "if False:",
        "test_tokens.py::test_every_route_refuses_what_is_no_valid_token",
        file="guard",
    ),
    door(
        "an expired token opens nothing",
        "token.expires_at_ms is not None and token.expires_at_ms <= now.wall_ms",
        "False",
        "test_tokens.py::test_every_route_refuses_what_is_no_valid_token",
        file="guard",
    ),
    door(
        "tokens are read again soon",
        ">= share * self._fresh_ms",
        ">= 10 * share * self._fresh_ms",
        "test_tokens.py::test_a_revoked_token_opens_nothing_after_a_second_and_no_call_reopens_the_door",
        file="guard",
    ),
    door(
        "a token opens only what it is for",
        "            call.need(route.scope)\n",
        "            pass\n",
        "test_tokens.py::test_every_route_refuses_a_token_of_each_other_scope",
        file="app",
    ),
    door(
        "a job of another namespace is unknown",
        "sorted(own if namespace is None else own & {namespace})",
        "(namespace,)",
        "test_tokens.py::test_a_job_of_another_namespace_is_as_unknown_as_one_that_never_was",
        file="calls",
    ),
    door(
        "nothing is done in another namespace",
        "bearer.namespaces is None or bearer.sees(namespace)",
        "True",
        "test_tokens.py::test_nothing_is_done_in_a_namespace_that_is_not_the_caller_s",
        file="calls",
    ),
    door(
        "a list shows the caller's own",
        "namespaces=among, **",
        "**",
        "test_tokens.py::test_lists_and_counts_without_a_namespace_show_only_the_caller_s_own",
        file="jobs",
    ),
    door(
        "others than this box need a token",
        "if is_reachable and not is_guarded",
        "if False",
        "test_door.py::test_an_address_that_others_can_reach_needs_a_token_and_tls",
        file="server",
    ),
    door(
        "others than this box need TLS",
        "if is_reachable and not is_secure",
        "if False",
        "test_door.py::test_an_address_that_others_can_reach_needs_a_token_and_tls",
        file="server",
    ),
    door(
        "a body must arrive in time",
        "asyncio.timeout_at(self._until_s)",
        "asyncio.timeout(None)",
        "test_limits.py::test_a_body_that_never_arrives_is_answered_408",
        file="intake",
    ),
    door(
        "headers must arrive in time",
        "self.loop.call_later(self.headers_s, self.transport.close)",
        "None",
        "test_limits.py::test_headers_that_never_arrive_end_the_connection",
        file="limits",
    ),
    door(
        "connections are counted",
        "len(self.connections) > self.connections_max",
        "False",
        "test_limits.py::test_one_connection_too_many_is_told_so_and_the_others_go_on",
        file="limits",
    ),
    door(
        "a job of another namespace is unknown to the ledger's verbs",
        "asked = _without(asked, strange)",
        "pass",
        "test_reach.py::test_a_job_and_a_worker_of_another_namespace_are_unknown_to_every_verb",
        file="reach",
    ),
    door(
        "the ledger's verbs do nothing in another namespace",
        "            call.need_namespace(name)\n",
        "            pass\n",
        "test_reach.py::test_no_verb_does_anything_in_a_namespace_that_is_not_the_caller_s",
        file="reach",
    ),
    door(
        "the ledger's verbs need their scope",
        "    call.need_any(verb.scopes)\n",
        "",
        "test_reach.py::test_every_verb_refuses_a_token_of_each_other_scope",
        file="ledger",
    ),
    door(
        "no program is started for whoever asks over HTTP",
        'if not route.startswith(("webhook:", "rabbitmq:"))',
        "if False",
        "test_jobs.py::test_what_cannot_be_right_is_refused_in_words_and_nothing_is_submitted",
        file="asked",
    ),
    door(
        "a form of another site is no JSON",
        'declared.partition(";")[0].strip().lower() != "application/json"',
        "False",
        "test_jobs.py::test_a_body_that_is_no_json_or_too_large_is_refused",
        file="calls",
    ),
    door(
        "bytes of a job may not act as a page of this server",
        "sandbox; ",
        "",
        "test_jobs.py::test_the_answer_comes_with_files_by_name",
        file="files",
    ),
    door(
        "whoever waits is let go when the server stops",
        "        for task in self._tasks:\n            task.cancel()\n",
        "        pass\n",
        "test_following.py::test_all_who_wait_are_let_go_when_the_server_stops",
        file="calls",
    ),
    door(
        "whoever waits is forgotten when it has left",
        "left.add_done_callback(lambda _: task.cancel())",
        "pass",
        "test_following.py::test_a_long_poll_ends_when_its_caller_has_left",
        file="calls",
    ),
]
