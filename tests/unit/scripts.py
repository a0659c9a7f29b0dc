"""Loads the programs of `scripts` that are written in Python, to be tested without a process."""

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parents[2] / "scripts"


def script(name: str) -> Any:
    """Return a program as a module, which it is not by its name."""
    known = name.replace("-", "_")
    loader = SourceFileLoader(known, str(SCRIPTS / name))
    spec = spec_from_loader(known, loader)
    assert spec is not None
    module = module_from_spec(spec)
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.modules[known] = module  # where dataclasses look their module up
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
        del sys.modules[known]
    return module
