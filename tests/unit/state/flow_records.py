"""Records of flows for tests: one to a nameless address, and one between two tenants."""

from dataclasses import replace

from state.flow_records import FORWARDED, End, EndNames, FlowRecord

WEB = EndNames(
    tenant="blue",
    network="sea",
    group="web",
    namespace="shop",
    pod="web-1",
    endpoint="sea.blue-c1",
    container="c1",
    labels={"app": "web", "tier": "front"},
)
RECORD = FlowRecord(
    number=7,
    changed=9,
    first=1000.25,
    last=1010.5,
    verdict=FORWARDED,
    protocol="tcp",
    source=End("10.1.0.2", 40000, WEB),
    destination=End("fd00::5", 8080),
    service="db:blue",
    service_address="10.1.0.200",
    service_port=80,
    policy="doors",
    rule="3",
    reason="policy",
)
THEIRS = EndNames(tenant="red", network="lake", group="vault", pod="db-0", labels={"app": "db"})
CROSSING = replace(RECORD, destination=End("10.9.0.7", 5432, THEIRS))
