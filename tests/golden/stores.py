"""The recorded stores of the original as bytes: what its store answered at that point."""

import json
from pathlib import Path
from typing import Any, Final

STORES: Final = Path(__file__).parent / "store"


def names() -> list[str]:
    """Name all recorded stores."""
    return sorted(path.stem for path in STORES.iterdir())


def recorded(name: str) -> dict[str, bytes]:
    """Return a store's keys and values; directories that were empty are left out."""
    found: dict[str, Any] = json.loads((STORES / f"{name}.json").read_text())["keys"]
    return {key: _bytes(value) for key, value in found.items() if value is not None}


def _bytes(value: Any) -> bytes:
    if isinstance(value, dict) and "_ttl" in value:
        value = value["value"]
    return (value if isinstance(value, str) else json.dumps(value)).encode()
