"""What tests of links share."""

import json
from typing import Any

from tests.bed.netns import Namespace


def shown(namespace: Namespace, *words: str) -> list[dict[str, Any]]:
    out = namespace.run(["ip", "-j", *words]).stdout
    found: list[dict[str, Any]] = json.loads(out or "[]")
    return found
