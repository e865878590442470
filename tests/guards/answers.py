"""What keeps answers from being lost, from being acted upon twice, and from going where they must not."""

from __future__ import annotations

from .fences import SQL, Fence
from .rules import contract, core

ADDRESSES = "tests/core/test_addresses.py"
TARGETS = "tests/orchestrator/test_webhook_targets.py"
QUEUES = "tests/orchestrator/test_outbox_queue.py"
OUTLETS = "test_a_route_that_nobody_could_send_to_is_refused"

ANSWERS = [
    contract(
        "a job whose retry is open is not retried again",
        "ledger/verbs/intake.py",
        "if made is not None:",
        "if False:",
        "TestSubmit::test_a_job_whose_retry_is_open_is_not_retried_again",
    ),
    Fence(
        "a receiver that asks for a rest gets it",
        "orchestrator/outbox.py",
        "if now_ms < (until_ms := self._resting_ms.pop(url, 0)):",
        "if (until_ms := self._resting_ms.pop(url, 0)) < 0:",
        (
            "tests/orchestrator/test_outbox.py"
            "::test_a_receiver_that_asks_for_a_rest_gets_it_and_others_are_not_kept_waiting",
        ),
    ),
    Fence(
        "how long a receiver may rest is bounded",
        "orchestrator/webhook.py",
        "return min(float(text), REST_S_MAX)",
        "return float(text)",
        ("tests/orchestrator/test_outbox.py::test_how_long_a_receiver_may_rest_is_bounded",),
    ),
    Fence(
        "an attempt is called stopped once nothing of it gets into the store any more",
        "worker/attempt.py",
        "            await self.run.stored()\n",
        "",
        ("tests/sim/test_oracle.py::test_a_checkpoint_on_its_way_when_its_attempt_is_given_up_is_deleted_in_the_end",),
    ),
    Fence(
        "every file of a job is stored",
        "worker/attempt.py",
        "if name not in stored:",
        "if not stored:",
        ("tests/integration/test_job_cases.py::test_every_file_that_a_job_returns_is_stored",),
    ),
    contract(
        "what is owed is parked only after its result was kept long enough",
        f"{SQL}/park.sql",
        " AND ended_at_ms <= :before_ms",
        " AND :before_ms",
        "TestOutbox::test_a_message_that_nobody_takes_is_parked_once_its_result_was_kept_long_enough",
    ),
    contract(
        "a lost attempt leaves its checkpoint to the next",
        "ledger/verbs/ending.py",
        "        _requeue(tx, lease, verdict, kept)",
        "        _requeue(tx, lease, verdict, [] if outcome is Outcome.LOST else kept)",
        "TestCheckpoint::test_a_lost_attempt_leaves_its_checkpoint_to_the_next",
    ),
    contract(
        "a job id names its own job to cancel, not that of a request of the same name",
        "ledger/verbs/ending.py",
        'if job is None or job["namespace"] != request.namespace:',
        "if True:",
        "TestCancel::test_a_job_id_names_its_own_job_whatever_requests_are_called",
    ),
    contract(
        "nobody cancels a job of another namespace",
        "ledger/verbs/ending.py",
        'if job is None or job["namespace"] != request.namespace:',
        "if job is None:",
        "TestCancel::test_nobody_cancels_an_unknown_job_or_one_of_another_namespace",
    ),
    contract(
        "the id of an archived job is no request's name",
        "ledger/verbs/requests.py",
        'if one(tx, "find_archived", job_id=request_id, namespace=namespace) is not None:',
        "if False:",
        "TestCancel::test_the_id_of_an_archived_job_names_no_other_job_either",
    ),
    contract(
        "a deadline ends the attempt that runs",
        "ledger/verbs/ending.py",
        '    tx.rows(\n        "end_attempt",\n        job_id=job_id,',
        '    tx.rows(\n        "find_attempt",\n        job_id=job_id,',
        "TestCancel::test_a_job_past_its_deadline_fails[True]",
    ),
    contract(
        "what has arrived is not parked",
        f"{SQL}/park.sql",
        " AND confirmed = 0",
        "",
        "TestOutbox::test_a_confirmed_message_is_not_parked",
    ),
    contract(
        "nothing is parked while the wall clock is doubted",
        "ledger/verbs/retention.py",
        "result is None or doubt(tx) > 0",
        "result is None",
        "TestOutbox::test_nothing_is_parked_while_the_wall_clock_is_doubted",
    ),
    contract(
        "a route that nobody could send to is refused at the door",
        "ledger/sqlite/ledger.py",
        "self._outlets.check(route for request in requests for route in request.subscribers)",
        "pass",
        "TestOutbox::test_a_queue_is_no_route_without_a_broker",
    ),
    core("an orchestrator starts no programs", "routes", " and not self.programs", " and False", OUTLETS),
    core(
        "planrun's own queues take no answers",
        "routes",
        ' and rest.startswith(f"{self.broker_prefix}.")',
        " and False",
        OUTLETS,
    ),
    core("a webhook that may never go out is refused", "routes", "if is_literal(host):", "if not host:", OUTLETS),
    Fence(
        "only where nobody is there is an answer parked",
        "orchestrator/outbox.py",
        '            raise _Undelivered(f"queue {queue}: {error}") from None',
        '            raise _NobodyThere(f"queue {queue}: {error}") from None',
        (f"{QUEUES}::test_a_broker_that_is_down_parks_nothing",),
    ),
    Fence(
        "what is not confirmed stays owed",
        "orchestrator/outbox.py",
        "        except TransportUnavailable as error:\n",
        "        except TransportUnavailable as error:\n            return\n",
        (f"{QUEUES}::test_what_is_not_confirmed_goes_out_again_the_same",),
    ),
    Fence(
        "no full stop in the id that is signed",
        "orchestrator/webhook.py",
        'f"msg_{digest(message.msg_id)[:32]}"',
        "message.msg_id",
        ("tests/orchestrator/test_outbox.py::test_each_subscriber_has_an_id_of_its_own_without_full_stops",),
    ),
    Fence(
        "a webhook goes where it may",
        "core/addresses.py",
        " if self.has(host, address)]",
        "]",
        (f"{TARGETS}::test_a_name_is_judged_by_what_it_resolves_to",),
    ),
    Fence(
        "what was judged is connected to",
        "outgoing.py",
        "self._network.connect_tcp(address, ",
        "self._network.connect_tcp(host, ",
        (f"{TARGETS}::test_the_name_is_resolved_once_and_what_was_judged_is_connected_to",),
    ),
    Fence(
        "an allowed name gives no way to metadata",
        "core/addresses.py",
        "(not plain.is_link_local and any(",
        "(any(",
        (f"{ADDRESSES}::test_what_is_allowed_besides",),
    ),
    Fence(
        "an IPv4 address in another's clothes",
        "core/addresses.py",
        "found.ipv4_mapped or ",
        "",
        (f"{ADDRESSES}::test_what_is_allowed_besides",),
    ),
    Fence(
        "an id is written down in a transaction, or not at all",
        "inbox.py",
        "return bool(alone and not connection.in_transaction)",
        "return False",
        ("tests/inbox/test_sqlite_inbox.py::TestSqliteInbox::test_without_a_transaction_nothing_is_written_down",),
    ),
    Fence(
        "what came before is not new",
        "inbox.py",
        "(msg_id, int(time.time())))\n        return bool(cursor.rowcount == 1)\n\n    def",
        "(msg_id, int(time.time())))\n        return True\n\n    def",
        ("tests/inbox/test_sqlite_inbox.py::TestSqliteInbox::test_the_first_time_is_told_from_every_other",),
    ),
    Fence(
        "only old ids are forgotten",
        "inbox.py",
        "WHERE seen_at_s < {marks[0]}",
        "WHERE {marks[0]} > 0",
        ("tests/inbox/test_sqlite_inbox.py::TestSqliteInbox::test_only_old_ids_are_forgotten",),
    ),
    Fence(
        "a webhook is read only if it was signed",
        "inbox.py",
        "        except Exception as error:  # what it raises for a header that is no signature is not said\n"
        "            failed = error\n        else:\n            return read(body)\n",
        "        except Exception as error:\n            failed = error\n        return read(body)\n",
        ("tests/inbox/test_received.py::test_anything_else_is_refused_with_words",),
    ),
]
