"""`planrun new`: a job module to begin with."""

from __future__ import annotations

import keyword
import re
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from planrun.cli.asking import AsJson, Flag
from planrun.cli.exits import Exit
from planrun.cli.printing import print_json
from planrun.core.errors import Invalid
from planrun.core.spelling import NAME_RULE, is_name

FUNCTION = '''\
"""A kind of job: a function that gets files and parameters, and returns files and values."""

from planrun.jobs import JobContext, Permanent, job


# If you change what it does, give it a new version: whoever asked for v1 is never answered by v2.
@job("KIND", version="v1", stall_s=120, output_bytes_max="1GiB")
def MODULE(j: JobContext):
    steps = j.params.get("steps", 10)
    if not isinstance(steps, int) or steps < 1:
        # The same input would fail the same way: the job fails once, and says why. Transient: try it again.
        raise Permanent(f"steps is {steps!r}; use a whole number above 0", code="bad-steps")
    # A file that is submitted with --input video=holiday.mov is the path j.inputs["video"].
    out = j.scratch / "out.txt"  # the folder to write to; it is gone after the job
    with out.open("w") as file:
        for step in range(1, steps + 1):
            print("step", step, file=file)
            j.progress(step / steps, f"step {step}")
    return {"out": out, "steps": steps}  # a path is a file to keep, anything else a JSON value
'''

COMMAND = '''\
"""A kind of job that a program does. It may be in any language; this one is in MODULE.sh."""

from planrun.jobs import command

# If you change what it does, give it a new version: whoever asked for v1 is never answered by v2.
# Also replaced: {inputs.video} (the path of --input video=holiday.mov), {scratch}, {here} and others.
command("KIND", ["./MODULE.sh", "{params.steps}"], version="v1", stall_s=120, output_bytes_max="1GiB")
'''

PROGRAM = """\
#!/bin/sh
# Runs in a folder of its own, which is gone after the job. Prints into the job's log.
set -eu
steps=$1

if [ "$steps" -lt 1 ]; then
    # The same input would fail the same way: the job fails once, and says why. transient: try it again.
    echo "error permanent [bad-steps] steps is $steps; use a whole number above 0" >&3
    exit 1
fi

step=0
while [ "$step" -lt "$steps" ]; do
    step=$((step + 1))
    echo "step $step" >> out/out.txt # what lies in out/ at the end is kept
    echo "progress $step/$steps step $step" >&3
done
echo "value {\\"steps\\": $steps}" >&3
"""


def new(
    name: Annotated[str, Parameter(name="NAME", help="Name of the kind.")],
    *,
    exec: Flag = False,
    json: AsJson = False,
) -> int:
    """Write a small job module into the current folder. Never overwrites a file.

    For example:

      planrun new thumbnail
      planrun new encode --exec

    Args:
        exec: For a program in another language: a module that names it, and a shell script to replace.
    """
    module = _module_of(name)
    texts = {f"{module}.py": COMMAND, f"{module}.sh": PROGRAM} if exec else {f"{module}.py": FUNCTION}
    taken = [file for file in texts if Path(file).exists()]
    if taken:
        raise Invalid(f"{taken[0]} exists already; choose another name, or move it away")
    for file, text in texts.items():
        _write(Path(file), text.replace("KIND", name).replace("MODULE", module))
    if json:
        print_json({"kind": name, "module": module, "files": list(texts)})
        return Exit.FINISHED
    print(f"wrote {' and '.join(texts)}; now try")
    print(f"  planrun worker {module} &")
    print(f"  planrun submit {name} steps=10 --wait")
    return Exit.FINISHED


def _module_of(name: str) -> str:
    if not is_name(name):
        raise Invalid(f"{name!r} is not a name; use {NAME_RULE}")
    module = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    if not module.isidentifier():
        raise Invalid(f"a module cannot be named {module}; choose a name that starts with a letter")
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or module == "planrun":
        raise Invalid(f"a module named {module} would hide Python's or planrun's own; choose another name")
    return module


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
        if path.suffix == ".sh":
            path.chmod(0o755)
    except OSError as error:
        raise Invalid(
            f"cannot write {path.absolute()}: {error.strerror}; go to a folder that you may write to"
        ) from None
