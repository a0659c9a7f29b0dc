"""Real shells that read netctl's completion as docs/netctl.md says, asked what they would offer.

In come a command line, where netmaster is and a home; out come the words that the shell would put
in place of the line's last one, and all that it showed meanwhile. bash and zsh sit on a terminal of
their own, where one key puts in all that TAB would list, and another tells the line; fish can be
asked without a terminal.
"""

import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

PROGRAMS: Final = Path(sys.executable).parent
WITHIN: Final = 45.0
"""Seconds a shell may take, on a slow machine; less than a command waits for netmaster's answer."""
PROMPT: Final = "asked: "
ALL_MATCHES: Final = b"\x18a"
"""Ctrl-X, a."""
TELL: Final = b"\x18t"

_BASHRC: Final = f"""
PS1='{PROMPT}'
bind 'set enable-bracketed-paste off'
bind '"\\C-xa": insert-completions'
_tell() {{ printf '%s' "$READLINE_LINE" > ~/line.new; mv ~/line.new ~/line; }}
bind -x '"\\C-xt": _tell'
eval "$(netctl completion bash)"
"""
_ZSHRC: Final = f"""
PS1='{PROMPT}'
unset zle_bracketed_paste
autoload -Uz compinit && compinit -u -D
eval "$(netctl completion zsh)"
zle -C all-matches complete-word _generic
zstyle ':completion:all-matches:*' completer _all_matches _complete
zstyle ':completion:all-matches:*' insert yes
bindkey '^Xa' all-matches
tell() {{ printf '%s' "$BUFFER" > ~/line.new; mv ~/line.new ~/line }}
zle -N tell
bindkey '^Xt' tell
"""


class Offer(NamedTuple):
    """What a shell offers, and all that it showed: prompts, lines and complaints."""

    words: list[str]
    shown: str


class Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, program: str, home: Path, url: str) -> None:
        self._home = home
        self.shown = ""
        self._end, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (50, 500))
        try:
            self._process = subprocess.Popen(
                ["setsid", "--ctty", program, "-i"],
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                env=_environment(home, url),
            )
        finally:
            os.close(theirs)

    def offer(self, line: str, key: bytes) -> str:
        """Type a line and press a key; return the line that the shell then has."""
        self._await(lambda: PROMPT in self.shown, "a prompt")
        told = self._home / "line"
        told.unlink(missing_ok=True)
        os.write(self._end, line.encode() + key + TELL)
        self._await(told.exists, "the line")
        return told.read_text()

    def close(self) -> None:
        """End the shell."""
        self._process.kill()
        self._process.wait()
        os.close(self._end)

    def _await(self, check: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WITHIN
        while not check():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} was not seen; the terminal shows {self.shown!r}")
            if select.select([self._end], [], [], 0.02)[0]:
                self.shown += os.read(self._end, 4096).decode()


def bash(line: str, url: str, home: Path, key: bytes = ALL_MATCHES) -> Offer:
    """Ask bash."""
    (home / ".bashrc").write_text(_BASHRC)
    return _on_terminal("bash", line, url, home, key)


def zsh(line: str, url: str, home: Path, key: bytes = ALL_MATCHES) -> Offer:
    """Ask zsh."""
    (home / ".zshrc").write_text(_ZSHRC)
    return _on_terminal("zsh", line, url, home, key)


def fish(line: str, url: str, home: Path) -> Offer:
    """Ask fish."""
    place = home / ".config/fish/completions/netctl.fish"
    place.parent.mkdir(parents=True, exist_ok=True)
    environment = _environment(home, url)
    place.write_text(_output(["netctl", "completion", "fish"], environment))
    shown = _output(["fish", "-c", "complete -C $argv[1]", line], environment)
    return Offer([row.partition("\t")[0] for row in shown.splitlines()], shown)


def _output(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return what a program prints; it has nothing to complain of."""
    done = subprocess.run(
        ["env", *command],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=WITHIN,
    )
    assert done.stderr == ""
    return done.stdout


def _on_terminal(program: str, line: str, url: str, home: Path, key: bytes) -> Offer:
    terminal = Terminal(program, home, url)
    try:
        completed = terminal.offer(line, key)
    finally:
        terminal.close()
    whole = line.rpartition(" ")[0]
    assert completed.startswith(whole), (line, completed)
    return Offer(completed.removeprefix(whole).split(), terminal.shown)


def _environment(home: Path, url: str) -> Mapping[str, str]:
    path = f"{PROGRAMS}:{os.environ['PATH']}"
    return {"HOME": str(home), "PATH": path, "NETMASTER": url, "TERM": "dumb", "LC_ALL": "C.UTF-8"}
