"""A switch that understands policy entries: conjunctions, priorities and stages."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address

from netplugin.world.kubernetes.policy_objects import PROTOCOLS
from ofnet.world import PolicyEntry, PolicyMatch, PolicyStage, Verdict

EGRESS = (PolicyStage.EGRESS_ADMIN, PolicyStage.EGRESS, PolicyStage.EGRESS_BASELINE)
INGRESS = (PolicyStage.INGRESS_ADMIN, PolicyStage.INGRESS, PolicyStage.INGRESS_BASELINE)


class Switch:
    """Judges first packets by the entries, as Open vSwitch does (ovs-fields(7))."""

    def __init__(self, entries: Iterable[PolicyEntry], vrf: int = 1) -> None:
        self._vrf = vrf
        self._levels: dict[PolicyStage, dict[int, list[PolicyEntry]]] = {}
        self._verdicts: dict[tuple[PolicyStage, int], PolicyEntry] = {}
        for entry in entries:
            match = entry.match
            if match.conjunction:
                self._verdicts[match.stage, match.conjunction] = entry
            else:
                levels = self._levels.setdefault(match.stage, {})
                levels.setdefault(match.priority, []).append(entry)

    def allows(self, source: str, target: str, protocol: str, port: int) -> bool:
        """Return whether a connection passes all stages."""
        packet = ip_address(source), ip_address(target), PROTOCOLS[protocol], port
        return all(self._direction(stages, *packet) for stages in (EGRESS, INGRESS))

    def _direction(
        self,
        stages: Iterable[PolicyStage],
        source: IPv4Address | IPv6Address,
        target: IPv4Address | IPv6Address,
        protocol: int,
        port: int,
    ) -> bool:
        for stage in stages:
            verdict = self._stage(stage, source, target, protocol, port)
            if verdict is Verdict.ALLOW:
                return True
            if verdict is Verdict.DENY:
                return False
        return True

    def _stage(
        self,
        stage: PolicyStage,
        source: IPv4Address | IPv6Address,
        target: IPv4Address | IPv6Address,
        protocol: int,
        port: int,
    ) -> Verdict | None:
        for _, entries in sorted(self._levels.get(stage, {}).items(), reverse=True):
            clauses: dict[int, set[int]] = {}
            sizes: dict[int, int] = {}
            for entry in entries:
                if not self._holds(entry.match, source, target, protocol, port):
                    continue
                if entry.verdict is not None:
                    return entry.verdict
                for conjunction, clause, of in entry.memberships:
                    clauses.setdefault(conjunction, set()).add(clause)
                    sizes[conjunction] = of
            for conjunction, met in clauses.items():
                if len(met) == sizes[conjunction]:
                    return self._verdicts[stage, conjunction].verdict
        return None

    def _holds(
        self,
        match: PolicyMatch,
        source: IPv4Address | IPv6Address,
        target: IPv4Address | IPv6Address,
        protocol: int,
        port: int,
    ) -> bool:
        return (
            match.vrf in {0, self._vrf}
            and match.version in {0, source.version}
            and all(
                wanted is None
                or (
                    address == wanted
                    if isinstance(wanted, IPv4Address | IPv6Address)
                    else address in wanted
                )
                for wanted, address in ((match.source, source), (match.destination, target))
            )
            and match.protocol in {0, protocol}
            and port & match.port_mask == match.port
        )
