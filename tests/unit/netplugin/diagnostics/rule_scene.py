"""Switches that count packets of a rule, and of policies of Kubernetes."""

from ipaddress import ip_address

from netplugin.world.kubernetes.kube_policies import KubePolicies
from netplugin.world.kubernetes.policy_objects import NETWORK_POLICIES
from netplugin.world.kubernetes.rules import PodAddress, PolicyPod
from ofnet.agent import BridgeAgent
from ofnet.world import Bridge, FwdMode, Rule, World
from tests.unit.ofnet.fake_switch import FakeSwitch

WEB = Rule(id="web", priority=1, allow=True, src_group=1, protocol=6, dst_port=80)


def policies() -> KubePolicies:
    """Return two policies: one with peers and ports, one that allows its pods everything."""
    found = KubePolicies()
    found.put_namespace("shop", {})
    address = PodAddress(1, ip_address("10.1.1.2"))
    pod = PolicyPod(namespace="shop", name="web-1", labels={}, addresses=(address,), local=True)
    found.put_pod(pod)
    narrow = {"from": [{"podSelector": {}}], "ports": [{"port": 80}]}
    for name, allowed in (("web", narrow), ("open", {})):
        spec = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [allowed]}
        meta = {"namespace": "shop", "name": name}
        found.put(NETWORK_POLICIES, {"metadata": meta, "spec": spec})
    return found


def agents(kubernetes: KubePolicies) -> tuple[dict[Bridge, BridgeAgent], list[FakeSwitch]]:
    """Return the agents of two bridges, whose switches have all flows; each counts 3 packets."""
    world = World(fwd_mode=FwdMode.ROUTING, rules={"web": WEB}, policy_entries=kubernetes.entries)
    found, switches = {}, []
    for bridge in Bridge:
        switch = FakeSwitch()
        found[bridge] = BridgeAgent(switch, bridge, world)
        switch.table.update(found[bridge].desired.flows)
        switch.counted = {flow.cookie: (3, 200) for flow in switch.table.values()}
        switches.append(switch)
    return found, switches
