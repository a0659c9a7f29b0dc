"""The pipelines: pure functions from the objects of a World to flows.

One module per mode (`vrouter`, `vlrouter`, `vlan_bridge`, `vxlan_bridge`), each with one function
per kind of object (`pipeline.Pipeline`). Shared stages: `stages` (input, groups, DNS interception),
`source_guard`, `neighbours` (ARP and ND answers), `service_nat`, `policy`, `ingress_group`,
`host_access`. `ofnet.tables` declares the tables; `ofnet.desired` adds the flows up.
"""

from collections.abc import Mapping
from typing import Final

from ofnet.pipelines import vlan_bridge, vlrouter, vrouter, vxlan_bridge
from ofnet.pipelines.pipeline import Pipeline
from ofnet.tables import Mode

PIPELINES: Final[Mapping[Mode, Pipeline]] = {
    pipeline.mode: pipeline
    for pipeline in (
        vlan_bridge.PIPELINE,
        vxlan_bridge.PIPELINE,
        vlrouter.PIPELINE,
        vrouter.PIPELINE,
    )
}
