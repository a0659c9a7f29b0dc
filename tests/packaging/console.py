"""Commands of a document, run as its reader would, and compared with what stands below them.

In comes a page with blocks of `console`, whose commands begin with `$ `; all of them run in one
shell, in which an earlier command may have set something for a later one. Blocks of `sh` are read
too (`lines`); who runs those is told by `tests/unit/deploy/test_first_commands.py`.
"""

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_MARK: Final = "-- next --"


def shown(document: Path) -> list[tuple[str, str]]:
    """Return the commands of a document, each with what stands below it."""
    blocks = re.findall(r"```console\n(.*?)```", document.read_text(), re.DOTALL)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [(command, answer) for command, _, answer in (part.partition("\n") for part in parts)]


def lines(document: Path) -> list[str]:
    """Return the commands of a document's blocks of `sh`, of which nothing printed is shown."""
    blocks = re.findall(r"```sh\n(.*?)```", document.read_text(), re.DOTALL)
    commands = (re.sub(r"\s+#.*", "", line) for block in blocks for line in block.splitlines())
    return [command for command in commands if command]


def check(
    document: Path,
    enter: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    place: Path | None = None,
) -> None:
    """Run the commands of a document; raises `AssertionError` for the first that fails or differs.

    `enter` are the words before the shell, `environ` is its whole environment, `place` its folder.
    """
    commands = shown(document)
    # the shell ends with the first command that fails
    script = "\n".join(f"echo '{_MARK}'\n{command}" for command, _ in commands)
    shell = [*enter, "bash", "-e", "-c", script]
    done = subprocess.run(
        shell, env=environ, cwd=place, capture_output=True, text=True, check=False
    )
    said = done.stdout.split(f"{_MARK}\n")[1:]
    failed = commands[len(said) - 1][0]
    assert done.returncode == 0, f"{failed}: {said[-1]}{done.stderr}"
    for (command, answer), printed in zip(commands, said, strict=True):
        assert printed == answer, f"{command}: {printed!r}, not {answer!r}; {done.stderr}"
