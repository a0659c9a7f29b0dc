"""What Kubernetes' policies and services say of pods, over all hosts. Pure.

In come the answers of the agents' `/inspect/kubernetes-rules`
(`netplugin.diagnostics.kubernetes_rules`), each about the pods of its host; out comes
`GET /api/v2/kubernetes-rules`. An answer that cannot be read counts as none.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Final, Literal

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from core.errors import AgentUnavailable
from netmaster import agent_answers
from netmaster.agent_answers import Count, Flag, Name, Text

MAX_ITEMS: Final = 2000
"""Rules that are shown, and services."""
MAX_NAMED: Final = 20
"""Pods that are named of a rule, or of a service; the others are counted."""

_DIRECTIONS: Final = ("ingress", "egress")
_TIERS: Final = ("admin", "network", "baseline")

_Names = Annotated[list[Name], Field(max_length=1000)]


class _Pods(TypedDict):
    pods: Annotated[_Names, Field(description="some of the pods, as `<namespace>/<name>`")]
    podCount: Annotated[Count, Field(description="how many pods it is about")]


class KubernetesRule(_Pods):
    """A rule of Kubernetes' policies, and the pods that it judges."""

    policies: Annotated[
        _Names, Field(description="kind and name; several that isolate the same pods are one rule")
    ]
    direction: Annotated[
        Literal["ingress", "egress"], Field(description="of the pods' point of view")
    ]
    tier: Annotated[
        Literal["admin", "network", "baseline"],
        Field(description="they are asked in this order; `pass` goes on to the next"),
    ]
    order: Annotated[Count, Field(description="in `admin` and `baseline`, the lowest decides")]
    action: Literal["allow", "deny", "pass"]
    rule: Annotated[Text, Field(description="protocols, ports and other ends, in words")]
    packets: Annotated[Count, Field(description="first packets of connections that it has judged")]


class KubernetesService(_Pods):
    """A service of Kubernetes, and the pods that it leads to."""

    service: Annotated[Name, Field(description="`<namespace>/<name>`")]
    addresses: Annotated[_Names, Field(description="none for a headless service")]
    ports: Annotated[_Names, Field(description="ports of the service, and those of the pods")]


class KubernetesRules(TypedDict):
    """What Kubernetes' policies and services say of pods, over all hosts."""

    items: list[KubernetesRule]
    services: list[KubernetesService]
    complete: Annotated[bool, Field(description="whether this is all of it")]
    unreachable: Annotated[
        dict[str, str],
        Field(description="the hosts whose pods or counters are missing, with the reason"),
    ]


class _Answer(TypedDict):
    rules: list[KubernetesRule]
    services: list[KubernetesService]
    complete: Flag
    missing: dict[Name, Text]


_ANSWER: Final = TypeAdapter(_Answer)


_Place = tuple[int, int, int, bool, tuple[str, ...], int, str, str]
"""Where a rule is shown; the last four are policies, number, words, action."""


def merged(
    replies: Mapping[str, bytes], unreachable: Mapping[str, str], *, most: int = MAX_ITEMS
) -> KubernetesRules:
    """Return the rules in the order in which they are asked, and the services by name.

    `replies` is by host, `unreachable` has the hosts without an answer, with the reason.
    `most` rules are shown, and services.
    """
    rules: dict[_Place, KubernetesRule] = {}
    services: dict[tuple[str, tuple[str, ...], tuple[str, ...]], KubernetesService] = {}
    unread, complete = dict(unreachable), True
    for host, body in replies.items():
        try:
            answer = agent_answers.read(host, "an answer about Kubernetes' rules", body, _ANSWER)
        except AgentUnavailable as exc:
            unread[host] = str(exc)
            continue
        if answer["missing"]:
            unread[host] = "; ".join(f"{name}: {why}" for name, why in answer["missing"].items())
        complete = complete and answer["complete"]
        # A host with an older picture of a policy has a rule of its own here.
        for place, rule in _placed(answer["rules"]):
            if (before := rules.setdefault(place, rule)) is not rule:
                _add(before, rule)
                before["packets"] += rule["packets"]
        for one in answer["services"]:
            key = one["service"], tuple(one["addresses"]), tuple(one["ports"])
            if (known := services.setdefault(key, one)) is not one:
                _add(known, one)
    return {
        "items": [rules[place] for place in sorted(rules)[:most]],
        "services": [services[key] for key in sorted(services)[:most]],
        "complete": complete and max(len(rules), len(services)) <= most,
        "unreachable": dict(sorted(unread.items())),
    }


def _placed(rules: Iterable[KubernetesRule]) -> Iterator[tuple[_Place, KubernetesRule]]:
    """Yield a host's rules with their places; those of a policy keep their order."""
    seen: Counter[tuple[object, ...]] = Counter()
    for one in rules:
        isolates = one["tier"] == "network" and one["action"] == "deny"
        place = (
            _DIRECTIONS.index(one["direction"]),
            _TIERS.index(one["tier"]),
            one["order"],
            isolates,
            tuple(one["policies"]),
        )
        yield (*place, seen[place], one["rule"], one["action"]), one
        seen[place] += 1


def _add(before: _Pods, more: _Pods) -> None:
    """Add the pods of another host."""
    before["pods"] = sorted({*before["pods"], *more["pods"]})[:MAX_NAMED]
    before["podCount"] += more["podCount"]
