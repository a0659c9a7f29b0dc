"""What tests of login share."""

import os
import pty
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bed.waiting import WITHIN, eventually

PROGRAM = Path(sys.executable).with_name("netctl")


@dataclass
class Login:
    """A netctl that asks for a name and a password on a terminal of its own."""

    process: subprocess.Popen[str]
    terminal: int

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self.terminal)[3] & termios.ECHO)

    def give(self, name: str = "joe", password: str = "secret") -> tuple[int, str, str]:
        """Type name and password; return exit code, stdout and stderr."""
        self.type(f"{name}\n")
        eventually(lambda: not self.echoes(), "the echo is off")
        self.type(f"{password}\n")
        return self.end()

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=WITHIN)
        return self.process.returncode, out, err


@contextmanager
def logging_in(home: Path, url: str, *flags: str, enter: Sequence[str] = ()) -> Iterator[Login]:
    terminal, theirs = pty.openpty()
    process = subprocess.Popen(
        # a shell that runs these tests in the background has them ignore interrupts
        [*enter, "env", "--default-signal=INT", PROGRAM, "--netmaster", url, *flags, "login"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"HOME": str(home), "PATH": os.environ["PATH"]},
    )
    try:
        yield Login(process, terminal)
    finally:
        process.kill()
        process.communicate()
        os.close(theirs)
        os.close(terminal)


def netctl(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *words],
        env={"HOME": str(home), "PATH": os.environ["PATH"]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN,
    )
