"""`planrun completion`."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from planrun.cli.asking import AsJson
from planrun.cli.exits import Exit
from planrun.cli.printing import print_json


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(name="SHELL", show_choices=False)],
    /,
    *,
    json: AsJson = False,
) -> int:
    """Print what bash, zsh or fish needs to complete verbs, options, jobs, kinds and workers.

    Put it where your shell looks for such files, then start a new shell.

    For example:

      planrun completion bash > ~/.local/share/bash-completion/completions/planrun
      planrun completion zsh > ~/.zfunc/_planrun
      planrun completion fish > ~/.config/fish/completions/planrun.fish

    Args:
        shell: bash, zsh or fish.
    """
    from planrun.cli.app import build_app  # noqa: PLC0415 - it names this verb

    script = build_app().generate_completion(prog_name="planrun", shell=shell)
    if json:
        print_json({"shell": shell, "script": script})
    else:
        print(script)
    return Exit.FINISHED
