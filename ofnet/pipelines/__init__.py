"""The pipelines: World in, flows out, nothing else.

One module per mode (`vrouter`, `vlrouter`, `vlan_bridge`, `vxlan_bridge`), each a set of pure
functions per object (`pipeline.Pipeline`); `stages` has what they share. `ofnet.desired` adds the
functions up.
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
