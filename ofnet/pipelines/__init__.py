"""The pipelines: pure functions from the objects of a World to flows.

One module per mode (`vrouter`, `vlrouter`, `vlan_bridge`, `vxlan_bridge`), whose pipeline has its
own forwarding and the features of all modes (`pipeline.Pipeline`). A feature
(`features.feature.Feature`) has the flows of one subject, by the kind of object that owns them:
`features.service_nat`, `features.contiv_policy`, `features.network_policy`, `features.pod_guard`,
`features.host_paths` and others. Shared stages are in `packet_path`: `packet_path.stages` (input,
groups, DNS interception), `packet_path.source_guard`, `packet_path.neighbours` (ARP and ND
answers), `packet_path.ingress_group`. `ofnet.tables` declares the tables; `ofnet.desired` adds the
flows up.
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
