"""Fuzzes contivk8s in C, guided by coverage: `python -m tests.fuzz.plugin_in_c [OPTION...]`.

Options are those of libFuzzer, such as -runs=100000 or -max_total_time=60. The recorded calls and
the malformed ones of `test_both_plugins` are where it begins. `make explore` runs it.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.integration.cni.malformed import CONFIGURATIONS, OK, REPLIES
from tests.integration.cni.recordings import CASES, recording

CORPUS: Final = Path("build/fuzz/contivk8s")
TARGET: Final = Path("build/fuzz/contivk8s.fuzz")
_DEFINED: Final = ('-DVERSION="v"', '-DGIT_COMMIT="c"', '-DBUILD_TIME="t"')
_FLAGS: Final = ("-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-variable")
_SANITIZERS: Final = ("-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all")


def seeds() -> Iterator[bytes]:
    """Yield inputs in the form that `tests/fuzz/contivk8s.c` describes."""
    for case in CASES:
        call = recording(case)
        words = "\0".join([call.env.get("CNI_ARGS", "") or "ADD", call.stdin]).encode()
        yield words + b"\x1e" + "\r\n\r\n".join(call.reply or ()).encode()
    config = b'{"cniVersion":"1.1.0","contiv":{"socket":"/s"}}'
    for verb in range(6):
        yield bytes([verb]) + b"K8S_POD_NAME=a;b=c\0" + config + b"\x1e" + OK
        yield from (bytes([verb]) + b"\0" + text + b"\x1e" + OK for text in CONFIGURATIONS)
    yield from (b"\0\0" + config + b"\x1e" + (reply or b"") for reply in REPLIES)


def main(*options: str) -> int:
    """Compile the target and run it; return the exit code. What failed is in its output."""
    CORPUS.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds()):
        if len(seed) < 1 << 16:
            (CORPUS / f"seed{number}").write_bytes(seed)
    source = Path(__file__).with_name("contivk8s.c")
    subprocess.run(["clang", *_FLAGS, *_DEFINED, *_SANITIZERS, "-o", TARGET, source], check=True)
    # it frees what a call took after the call
    return subprocess.run(
        [TARGET, "-max_len=65536", *options, CORPUS],
        env=os.environ | {"ASAN_OPTIONS": "detect_leaks=0"},
        check=False,
    ).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
