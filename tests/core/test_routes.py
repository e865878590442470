"""Where answers may be sent."""

from __future__ import annotations

import pytest

from planrun.core.addresses import allowed_from
from planrun.core.errors import Invalid
from planrun.core.routes import EMBEDDED, Command, Outlets, Publish, Queue, Webhook, check_route


def test_a_webhook_is_a_full_http_address() -> None:
    assert check_route("webhook:https://app.example:8443/answers?q=1") == Webhook(
        "https://app.example:8443/answers?q=1"
    )
    assert check_route("webhook:http://127.0.0.1:80/") == Webhook("http://127.0.0.1:80/")


@pytest.mark.parametrize("name", ["media-answers", "app.answers/eu:1", "a" * 200, "%41"])
def test_a_queue_is_a_name_without_spaces(name: str) -> None:
    assert check_route(f"rabbitmq:{name}") == Queue(name)


def test_the_id_of_a_message_to_the_longest_queue_fits_into_amqp() -> None:
    assert len(f"result:{'0' * 36}:rabbitmq:{'q' * 200}") <= 255


FLEET = Outlets(programs=False, broker_prefix="pr")
ALONE = Outlets(programs=False)
PUBLIC = Outlets(programs=False, webhooks=allowed_from(["10.1.0.0/16"]))


@pytest.mark.parametrize("route", ["webhook:https://app.example/", "publish:master.mp4"])
@pytest.mark.parametrize("outlets", [EMBEDDED, FLEET, ALONE])
def test_what_everybody_can_send(outlets: Outlets, route: str) -> None:
    outlets.check([route])


@pytest.mark.parametrize(
    ("outlets", "route", "words"),
    [
        (EMBEDDED, "rabbitmq:answers", "has no broker; give its orchestrator one with --broker"),
        (ALONE, "rabbitmq:answers", "has no broker"),
        (FLEET, "command:/bin/notify", "an orchestrator starts no programs"),
        (ALONE, "command:/bin/notify", "an orchestrator starts no programs"),
        (FLEET, "rabbitmq:pr.beat.1.2", "that queue is planrun's own"),
        (
            PUBLIC,
            "webhook:http://127.0.0.1:9/",
            "127.0.0.1 is 127.0.0.1, which is not public; to allow it: --allow-web",
        ),
        (PUBLIC, "webhook:https://[::1]/answers", "not public"),
        (PUBLIC, "webhook:http://169.254.169.254/", "not public"),
    ],
)
def test_a_route_that_nobody_could_send_to_is_refused(outlets: Outlets, route: str, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        outlets.check([route])


@pytest.mark.parametrize("host", ["app.internal", "localhost", "10.1.2.3:8080", "[2606:4700::1111]", "1.1.1.1"])
def test_a_name_is_judged_when_it_is_asked_and_an_allowed_address_is_taken(host: str) -> None:
    PUBLIC.check([f"webhook:http://{host}/"])


def test_a_program_of_this_box_and_a_queue_of_the_fleet_are_taken() -> None:
    EMBEDDED.check(["command:/bin/notify"])
    FLEET.check(["rabbitmq:answers", "rabbitmq:prs"])


def test_a_command_is_split_like_a_shell_line_but_run_without_one() -> None:
    assert check_route("command:/bin/notify 'two words' $HOME;ls") == Command(("/bin/notify", "two words", "$HOME;ls"))


@pytest.mark.parametrize(
    ("text", "name", "output"),
    [
        ("publish:master.mp4", "master.mp4", ""),
        ("publish:campaign-42/2026/master.mp4=film", "campaign-42/2026/master.mp4", "film"),
    ],
)
def test_a_public_name_is_a_path_of_plain_names_and_perhaps_an_output(text: str, name: str, output: str) -> None:
    assert check_route(text) == Publish(name, output)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "https://app.example/",
        "queue:answers",
        "webhook:",
        "webhook:app.example/answers",
        "webhook:ftp://app.example/",
        "webhook:https:///answers",
        "webhook:https://app.example:0/",
        "webhook:https://app.example:99999/",
        "webhook:https://app.example/a b",
        "webhook:https://app.example/\r\nX-Evil: 1",
        "webhook:https://app.example/grüße",
        "webhook:https://[::1/",
        "rabbitmq:",
        "rabbitmq:two words",
        "rabbitmq:grüße",
        "rabbitmq:a\nb",
        "rabbitmq:amq.rabbitmq.reply-to",
        "rabbitmq:" + "q" * 201,
        "command:",
        "command:   ",
        "command:'' x",
        "command:echo 'open",
        "command:echo \0",
        "command:" + "x" * 2000,
        "publish:",
        "publish:/etc/passwd",
        "publish:../outside",
        "publish:a/../../outside",
        "publish:a/./b",
        "publish:a//b",
        "publish:a/",
        "publish:.planrun/00",
        "publish:a/.hidden",
        "publish:a\\b",
        "publish:a b",
        "publish:a\0",
        "publish:grüße",
        "publish:a=",
        "publish:a=b/c",
        "publish:" + "/".join(["x" * 100] * 6),
    ],
)
def test_a_route_that_could_never_work_is_refused_at_submit(text: str) -> None:
    with pytest.raises(Invalid):
        check_route(text)
