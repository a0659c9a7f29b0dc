"""Variables of the environment that come from files of a directory.

`CONTIV_SETTINGS_DIR` names a directory whose files are variables by their names, as a ConfigMap of
Kubernetes is when it is mounted. They come before what the environment has. A ConfigMap in the
environment of a container (`envFrom`) must be read from the API server before the container can
start: kubelet would start no agent again while the API server is away. What is mounted is there.
"""

import os
import re
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

VARIABLE: Final = "CONTIV_SETTINGS_DIR"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Other files are none of these: `..data` is how kubelet replaces all of them at once."""


def take_or_exit() -> None:
    """Take them for this process, as the first thing that its program does.

    Ends the process with a sentence on standard error if they cannot be read.
    """
    try:
        take()
    except (OSError, ValueError) as exc:
        sys.exit(f"{VARIABLE}: {exc}")


def take(environ: MutableMapping[str, str] = os.environ) -> None:
    """Put the variables of the directory into the environment, if it names one.

    The last line of a file may end with a newline, which is no part of it. Raises OSError if
    something cannot be read, ValueError for what is no text.
    """
    place = environ.get(VARIABLE)
    if not place:
        return
    for path in sorted(Path(place).iterdir()):
        if _NAME.fullmatch(path.name):
            environ[path.name] = path.read_text("utf-8").removesuffix("\n")
