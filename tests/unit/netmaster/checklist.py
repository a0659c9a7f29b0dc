"""A cluster that objects are posted to, for the tests of the original, by their number."""

import json
from typing import Any

from core.errors import ContivError
from core.ids import NetworkId
from netmaster.api.v1 import objects
from netmaster.api.v1.objects import OBJECT_CLASSES
from netmaster.plan.show import inspect
from tests.unit.netmaster.scene import Scene

GLOBAL = {
    "name": "global",
    "networkInfraType": "default",
    "vlans": "1-4094",
    "vxlans": "1-10000",
    "fwdMode": "routing",
    "arpMode": "proxy",
    "pvtSubnet": "172.19.0.0/16",
}


class Checklist(Scene):
    """Bodies in, success or failure out."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self._tag = 500

    def post(self, plural: str, key: str, **body: Any) -> bool:
        """Say whether an object is accepted; `text` is why not."""
        try:
            self.do(objects.write(OBJECT_CLASSES[plural], key, json.dumps(body).encode()))
        except ContivError as exc:
            self.text = str(exc)
            return False
        return True

    def gone(self, plural: str, key: str) -> bool:
        """Say whether an object could be deleted."""
        try:
            self.do(OBJECT_CLASSES[plural].delete, key)
        except ContivError as exc:
            self.text = str(exc)
            return False
        return True

    def net(self, name: str, encap: str = "vlan", subnet: str = "10.1.1.0/24", **more: Any) -> bool:
        """Create a network; its tag is free unless given."""
        self._tag += 1
        body = {
            "tenantName": "default", "networkName": name, "nwType": "data", "encap": encap,
            "subnet": subnet, "pktTag": self._tag,
        } | more  # fmt: skip
        return self.post("networks", f"{body['tenantName']}:{name}", **body)

    def settings(self, **more: str) -> bool:
        return self.post("globals", "global", **(GLOBAL | more))

    def tenant_made(self, name: str) -> bool:
        return self.post("tenants", name, tenantName=name)

    def epg(self, name: str, network: str, tenant: str = "default", **more: Any) -> bool:
        return self.post(
            "endpointGroups", f"{tenant}:{name}", tenantName=tenant, groupName=name,
            networkName=network, **more,
        )  # fmt: skip

    def app(self, name: str, *groups: str, tenant: str = "default") -> bool:
        return self.post(
            "appProfiles", f"{tenant}:{name}", tenantName=tenant, appProfileName=name,
            endpointGroups=list(groups),
        )  # fmt: skip

    def oper(self, key: str) -> dict[str, Any]:
        return dict(inspect.network(self.view, key))

    def tags(self, name: str) -> tuple[int, int]:
        """Return the local and the external tag of a network of the default tenant."""
        record = self.view.networks[NetworkId(f"{name}.default")]
        return record.pkt_tag, record.ext_pkt_tag

    def in_use(self) -> tuple[str, str]:
        oper = inspect.global_(self.view, "global")
        return str(oper["vlansInUse"]), str(oper["vxlansInUse"])
