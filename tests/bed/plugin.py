"""contivk8s as hosts have it: compiled once for each state of its sources, into `.run`."""

import hashlib
import os
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SCRIPT: Final = ROOT / "contivk8s" / "main.py"
"""The reference, which hosts with Python can run."""
_SOURCES: Final = ("contivk8s/main.c", "contivk8s/json.h", "scripts/contivk8s", "core/version.py")
SANITIZED: Final = "-g -fsanitize=address,undefined -fno-sanitize-recover=all"
"""Flags for a program that ends at the first fault of memory, and at what C does not define."""


def compiled(flags: str = "") -> Path:
    """Return the program, static unless it has flags of its own."""
    state = b"".join((ROOT / name).read_bytes() for name in _SOURCES) + flags.encode()
    program = ROOT / ".run" / f"contivk8s-{hashlib.sha256(state).hexdigest()[:16]}"
    if not program.exists():
        program.parent.mkdir(exist_ok=True)
        new = program.with_name(f"{program.name}.{os.getpid()}")
        env = os.environ | ({"STATIC": "", "CFLAGS": flags} if flags else {})
        subprocess.run([ROOT / "scripts" / "contivk8s", new], check=True, env=env)
        new.replace(program)
    return program
