"""Where answers may be sent."""

from __future__ import annotations

import pytest

from planrun.core.errors import Invalid
from planrun.core.routes import Command, Publish, Webhook, check_route


def test_a_webhook_is_a_full_http_address() -> None:
    assert check_route("webhook:https://app.example:8443/answers?q=1") == Webhook(
        "https://app.example:8443/answers?q=1"
    )
    assert check_route("webhook:http://127.0.0.1:80/") == Webhook("http://127.0.0.1:80/")


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
