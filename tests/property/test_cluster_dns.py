"""Whatever rules and policies there are: a pod asks the agent what it could send the address.

The agent as the pods' name server gets a question exactly if the packet, were nothing of it
intercepted, would come to the table where packets leave.
"""

from dataclasses import replace
from ipaddress import IPv4Network

from hypothesis import given
from hypothesis import strategies as st

from ofnet.openflow import oxm
from ofnet.pipelines.packet_path.stages import DNS_PORT, DNS_RETURN_VLAN
from ofnet.world import (
    Bridge,
    FwdMode,
    PolicyEntry,
    PolicyMatch,
    PolicyStage,
    PolicySubject,
    Rule,
    Verdict,
)
from tests.unit.ofnet.pipelines.cluster_dns import OWN, asks, cluster, is_asked, verdict
from tests.unit.ofnet.pipelines.interception import MODES
from tests.unit.ofnet.worlds import address

PLACES = st.sampled_from([None, IPv4Network(f"{OWN}/32"), IPv4Network("10.96.0.0/12")])
PROTOCOLS = st.sampled_from([0, oxm.PROTO_TCP, oxm.PROTO_UDP])
PORTS = st.sampled_from([0, DNS_PORT, 80])
rules = st.builds(
    lambda allow, group, where, protocol, port: Rule(
        id="",
        priority=1,
        allow=allow,
        src_group=group,
        destination=where,
        protocol=protocol,
        dst_port=port if protocol else 0,
    ),
    st.booleans(),
    st.sampled_from([0, 1, 2]),
    PLACES,
    PROTOCOLS,
    PORTS,
)
entries = st.builds(
    lambda stage, source, where, protocol, port, says: PolicyEntry(
        PolicyMatch(
            stage,
            0,
            vrf=1,
            version=0 if source or where else 4,
            source=source,
            destination=where,
            protocol=protocol,
            port=port if protocol else 0,
            port_mask=0xFFFF if protocol and port else 0,
        ),
        says,
    ),
    st.sampled_from([PolicyStage.EGRESS_ADMIN, PolicyStage.EGRESS, PolicyStage.EGRESS_BASELINE]),
    st.sampled_from([None, address(1), address(2)]),
    PLACES,
    PROTOCOLS,
    PORTS,
    st.sampled_from([Verdict.ALLOW, Verdict.DENY, Verdict.PASS]),
)


@given(
    mode=st.sampled_from(MODES),
    of_contiv=st.lists(rules, max_size=4),
    of_kubernetes=st.lists(entries, max_size=5),
    selected=st.booleans(),
    by_tcp=st.booleans(),
)
def test_a_question_is_judged_as_the_packet_that_it_is(
    mode: tuple[Bridge, FwdMode],
    of_contiv: list[Rule],
    of_kubernetes: list[PolicyEntry],
    selected: bool,
    by_tcp: bool,
) -> None:
    kind, fwd_mode = mode
    given_rules = {
        f"r{number}": replace(one, id=f"r{number}", priority=number)
        for number, one in enumerate(of_contiv, 1)
    }
    matches = [
        PolicyEntry(one.match._replace(priority=number), one.verdict)
        for number, one in enumerate(of_kubernetes, 10)
    ]
    here = replace(
        cluster(fwd_mode),
        rules=given_rules,
        policy_entries={one.match.name: one for one in matches},
        policy_subjects={"1": PolicySubject(1, address(1))} if selected else {},
    )
    # without the address the agent returns such a question with its mark, to be sent on
    packet = asks(by_tcp=by_tcp)
    marked = replace(packet, tags=(DNS_RETURN_VLAN,))
    sent_on = verdict(kind, replace(here, dns_address=None), marked)
    leaves = {flow.table for flow in sent_on.path} & {7, 9}
    assert is_asked(verdict(kind, here, packet)) == bool(leaves)
