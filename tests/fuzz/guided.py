"""Guides a target by coverage, with atheris: `python -m tests.fuzz.guided TARGET [OPTION...]`.

Options are those of libFuzzer, such as -runs=100000 or -max_total_time=60. It pays where a parser's
branches are in our own Python: messages of BGP, OpenFlow and packets. `make explore` runs it where
atheris can be installed (requirements-fuzz.lock); `make test` does not need it.
"""

import importlib
import sys
from pathlib import Path
from typing import Any, Final

CORPUS: Final = Path("build/fuzz")
"""Inputs by target; those that reached new code are kept for the next run."""


def main(name: str, *options: str) -> None:
    """Run one target until libFuzzer ends the process; what failed is in its output."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["contivk8s", "core", "netplugin", "ofnet", "state"]):
        registry: Any = importlib.import_module("tests.fuzz.targets")
    target = next(one for one in registry.TARGETS if one.name == name)

    def call(data: bytes) -> None:
        try:
            target.call(data)
        except target.refusals:
            return

    corpus = CORPUS / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed{number}").write_bytes(seed)
    atheris.Setup([sys.argv[0], str(corpus), "-max_len=4096", *options], call)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
