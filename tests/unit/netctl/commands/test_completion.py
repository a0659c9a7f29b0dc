"""`netctl completion`."""

import pytest

from tests.unit.netctl.master import Netctl


@pytest.mark.parametrize("shell", ["zsh", "fish"])  # bash is asked for its version
def test_a_script_asks_this_program(shell: str, netctl: Netctl) -> None:
    done = netctl("completion", shell)
    assert done.code == 0
    assert f"_NETCTL_COMPLETE={shell}_complete" in done.out


@pytest.mark.parametrize("words", [[], ["tcsh"], ["bash", "zsh"]])
def test_one_shell_is_required(words: list[str], netctl: Netctl) -> None:
    done = netctl("completion", *words)
    assert (done.code, done.message) == (1, '"Shell required: bash, zsh or fish"')
    assert "Usage: netctl completion" in done.out
