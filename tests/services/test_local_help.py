"""`python -m deploy.local` says what it does before it does it."""

from __future__ import annotations

import pytest

from deploy.local.__main__ import main


@pytest.mark.parametrize(("option", "status"), [("--help", 0), ("--nonsense", 2)])
def test_an_option_starts_nothing(option: str, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["deploy.local", option])

    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == status
