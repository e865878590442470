"""What an operator declares of a fleet, and how it is refused."""

from __future__ import annotations

import tomllib

import pytest

from planrun.core.errors import Invalid
from planrun.core.machines import MachineClass, classes_of

FILE = """
[gpu-box]
kinds = ["upscale v2", "preview v1"]
namespaces = ["media"]
capabilities = ["gpu", "gpu:h100"]

[small]
kinds = ["preview v1"]
"""


def test_each_table_is_a_class() -> None:
    gpu, small = classes_of(tomllib.loads(FILE))

    assert gpu.capabilities == ("gpu", "gpu:h100")
    assert small == MachineClass(name="small", kinds=("preview v1",))
    row = gpu.as_worker(5)
    assert [(each.kind, each.version) for each in row.handlers] == [("upscale", "v2"), ("preview", "v1")]
    assert (row.slots, row.namespaces, row.seen_at_ms) == (0, ("media",), 5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = 1", "class a: write it as a table"),
        ("[a]", "runs nothing"),
        ("[a]\nkinds = []", "runs nothing"),
        ("[a]\nkinds = ['preview']", "'preview' is not a kind and its version"),
        ("[a]\nkinds = ['preview v1 v2']", "is not a kind and its version"),
        ("[a]\nkinds = 'preview v1'", "kinds is a list of texts"),
        ("[a]\nkinds = ['preview v1']\ngpu = true", "has 'gpu'"),
        ("[a]\nkinds = ['preview v1']\ncapabilities = ['gpu:']", "capability 'gpu:'"),
        ("[a]\nkinds = ['preview v1']\nnamespaces = ['a b']", "namespace 'a b'"),
        ("['a b']\nkinds = ['preview v1']", "class 'a b'"),
    ],
)
def test_what_cannot_be_right_is_said_in_a_line_with_the_class(text: str, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        classes_of(tomllib.loads(text))

    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
