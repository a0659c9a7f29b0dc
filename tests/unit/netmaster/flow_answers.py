"""What agents say of their flows, for tests of what netmaster makes of it."""

import json
from typing import Any

from netmaster.plan.show.flow_pages import FlowEnd


def end(tenant: str = "blue") -> dict[str, Any]:
    whole = dict.fromkeys(FlowEnd.__annotations__, "x")
    return {**whole, "tenant": tenant, "address": "10.1.0.1", "port": 80, "labels": {"a": "b"}}


def record(number: int, second: int, **more: Any) -> dict[str, Any]:
    texts = dict.fromkeys(
        ("reason", "because", "policy", "rule", "protocol", "service", "serviceAddress"), "x"
    )
    counts = dict.fromkeys(
        ("servicePort", "packets", "bytes", "answerPackets", "answerBytes", "changed"), 1
    )
    at = f"2026-11-26T12:00:{second:02}.000+00:00"
    return {
        **texts,
        **counts,
        "number": number,
        "first": at,
        "last": at,
        "ended": False,
        "verdict": "forwarded",
        "source": end(),
        "destination": end(),
        **more,
    }


def said(*records: dict[str, Any], on: bool = True, lost: int = 0) -> bytes:
    whole = {"on": on, "records": records, "position": 9, "lost": {"room": lost}}
    return json.dumps(whole).encode()
