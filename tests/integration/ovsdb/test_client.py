"""`netplugin.ovsdb` on a real ovsdb-server and ovs-vswitchd."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from core.errors import SwitchRefused, SwitchUnavailable
from netplugin.kernel.packets import heartbeat
from netplugin.kernel.packets.heartbeat import Heartbeat
from netplugin.ovsdb import BridgeSpec, Continuity, Ovsdb, PortSpec
from netplugin.ovsdb.replica import Replica
from netplugin.ovsdb.row_changes import PLACEHOLDER
from tests.bed.ovs import OvsHost
from tests.bed.waiting import WITHIN, eventually, eventually_async
from tests.integration.ofnet.dialled import listening

pytestmark = pytest.mark.ovs

BRIDGE = "contivVxlanBridge"
SPEC = BridgeSpec(
    name=BRIDGE,
    controller="tcp:127.0.0.1:6633",
    datapath_type="netdev",
    datapath_id="0000020202020202",
)


@asynccontextmanager
async def connected(ovs: OvsHost, limit: float = 5.0) -> AsyncIterator[Ovsdb]:
    ovsdb = await Ovsdb.connect(f"unix:{ovs.db_socket}", limit=limit)
    try:
        yield ovsdb
    finally:
        await ovsdb.close()


@pytest.fixture
async def ovsdb(ovs_module: OvsHost) -> AsyncIterator[Ovsdb]:
    """Give a connection to a switch with our bridge alone on it."""
    async with connected(ovs_module) as ovsdb:
        for bridge in ovsdb.bridges():
            await ovsdb.delete_bridge(bridge)
        await ovsdb.ensure_bridge(SPEC)
        yield ovsdb


async def until(ovsdb: Ovsdb, condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN):
        while True:
            changed = ovsdb.changed()
            if condition():
                return
            await changed.wait()


def internal(name: str, number: int | None = None, **rest: object) -> PortSpec:
    return PortSpec(name=name, type="internal", ofport_request=number, **rest)  # type: ignore[arg-type]


async def test_bridge_is_made_as_specified(ovs_module: OvsHost, ovsdb: Ovsdb) -> None:
    def get(column: str) -> str:
        return ovs_module.vsctl("get", "bridge", BRIDGE, column).strip()

    assert get("datapath_type") == "netdev"
    assert get("fail_mode") == "secure"
    assert get("protocols") == "[OpenFlow10, OpenFlow11, OpenFlow12, OpenFlow13]"
    assert get("other_config") == '{datapath-id="0000020202020202", disable-in-band="true"}'
    await until(ovsdb, lambda: BRIDGE in ovsdb.bridges())
    assert ovs_module.vsctl("get-controller", BRIDGE).strip() == "tcp:127.0.0.1:6633"
    controller = get("controller").strip("[]")
    columns = ovs_module.vsctl(
        *("get", "controller", controller, "connection_mode", "max_backoff", "inactivity_probe"),
        *("controller_rate_limit", "controller_burst_limit"),
    )
    assert columns.split() == ["out-of-band", "1000", "10000", "2000", "500"]


@pytest.mark.parametrize("count", [1, 10])
async def test_bridges_come_and_go_with_all_they_hold(
    ovs_module: OvsHost, ovsdb: Ovsdb, count: int
) -> None:
    def rows() -> list[list[str]]:
        columns = {"Bridge": "name", "Port": "name", "Interface": "name", "Controller": "target"}
        return [
            ovs_module.vsctl("--bare", f"--columns={column}", "list", table).split()
            for table, column in columns.items()
        ]

    before = rows()
    names = {f"ovsbr{number}": number for number in range(count)}
    for name, number in names.items():
        target = f"tcp:127.0.0.1:{7000 + number}"
        await ovsdb.ensure_bridge(replace(SPEC, name=name, controller=target, datapath_id=None))
        await ovsdb.add_port(name, internal(f"port{number}", tag=11))
    assert set(ovs_module.vsctl("list-br").split()) == {*names, BRIDGE}
    for name in names:
        await ovsdb.delete_bridge(name)
    assert rows() == before


async def test_zones_remember_ended_connections(ovs_module: OvsHost, ovsdb: Ovsdb) -> None:
    def zones() -> list[str]:
        shown = ovs_module.vsctl("list-zone-tp", "netdev").splitlines()
        return sorted(line.strip() for line in shown)

    policy = "Timeout Policies: tcp_close=75 tcp_time_wait=75"
    await ovsdb.remember_ended(BRIDGE, {7, 8})
    assert zones() == [f"Zone:7, {policy}", f"Zone:8, {policy}"]
    ovs_module.vsctl("add-zone-tp", "netdev", "zone=5", "tcp_close=1")
    await ovsdb.remember_ended(BRIDGE, {8, 9})
    foreign = "Zone:5, Timeout Policies: tcp_close=1"
    assert zones() == [foreign, f"Zone:8, {policy}", f"Zone:9, {policy}"]
    assert ovs_module.vsctl("--columns=_uuid", "list", "CT_Timeout_Policy").count("_uuid") == 2
    await ovsdb.delete_bridge(BRIDGE)
    assert zones() == [foreign]
    ovs_module.vsctl("del-zone-tp", "netdev", "zone=5")


async def test_what_was_made_for_zones_goes_with_the_bridge(ovs: OvsHost) -> None:
    async with connected(ovs) as ovsdb:
        await ovsdb.ensure_bridge(replace(SPEC, datapath_type="system"))
        await ovsdb.remember_ended(BRIDGE, {7})
        assert ovs.vsctl("list", "Datapath") == "", "the kernel remembers them by itself"
        await ovsdb.ensure_bridge(SPEC)
        await ovsdb.remember_ended(BRIDGE, {7})
        await ovsdb.delete_bridge(BRIDGE)
        for table in ("Datapath", "CT_Zone", "CT_Timeout_Policy"):
            assert ovs.vsctl("list", table) == ""


async def test_wrong_settings_are_corrected_and_ports_stay(
    ovs_module: OvsHost, ovsdb: Ovsdb
) -> None:
    await ovsdb.add_port(BRIDGE, internal("foreign0"))
    before = await ovsdb.wait_ofport("foreign0", 5)
    ovs_module.vsctl(
        *["set-fail-mode", BRIDGE, "standalone", "--"],
        *["set-controller", BRIDGE, "tcp:127.0.0.1:1", "tcp:127.0.0.1:2", "--"],
        *["set", "bridge", BRIDGE, "protocols=OpenFlow10", "other_config:mac-aging-time=7"],
    )
    await until(ovsdb, lambda: True)
    await ovsdb.set_bridge_external_ids(BRIDGE, {"seen": "yes"})
    await ovsdb.ensure_bridge(SPEC)
    assert ovs_module.vsctl("get-fail-mode", BRIDGE).strip() == "secure"
    assert ovs_module.vsctl("get-controller", BRIDGE).strip() == "tcp:127.0.0.1:6633"
    assert "OpenFlow13" in ovs_module.vsctl("get", "bridge", BRIDGE, "protocols")
    other = ovs_module.vsctl("get", "bridge", BRIDGE, "other_config")
    assert 'mac-aging-time="7"' in other
    assert 'disable-in-band="true"' in other
    assert ovsdb.ports(BRIDGE)["foreign0"].ofport == before


async def test_right_settings_are_not_written_again(ovs_module: OvsHost, ovsdb: Ovsdb) -> None:
    await ovsdb.add_port(BRIDGE, internal("vvport6"))
    await ovsdb.wait_ofport("vvport6", 5)
    before = ovs_module.vsctl("get", "bridge", BRIDGE, "controller")
    await ovsdb.ensure_bridge(SPEC)
    assert ovs_module.vsctl("get", "bridge", BRIDGE, "controller") == before


async def test_hung_up_a_bridge_dials_anew_and_keeps_its_flows(
    ovs_module: OvsHost, ovsdb: Ovsdb
) -> None:
    seen: asyncio.Queue[str] = asyncio.Queue()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.put_nowait("dialed")
        await reader.read()
        writer.close()
        seen.put_nowait("ended")

    server = await asyncio.start_server(answer, sock=listening(ovs_module))
    spec = replace(SPEC, controller=f"tcp:127.0.0.1:{server.sockets[0].getsockname()[1]}")
    async with server, asyncio.timeout(WITHIN):
        await ovsdb.ensure_bridge(spec)
        assert await seen.get() == "dialed"
        ovs_module.ofctl("-OOpenFlow13", "add-flow", BRIDGE, "priority=7,actions=drop")
        await ovsdb.hang_up(BRIDGE, "ovsbr-none")
        assert await seen.get() == "ended"
        assert ovs_module.vsctl("get-controller", BRIDGE).strip() == PLACEHOLDER
        done = ovs_module.vsctl("get", "open_vswitch", ".", "cur_cfg", "next_cfg").split()
        assert done[0] == done[1]
        await ovsdb.ensure_bridge(spec)
        assert await seen.get() == "dialed"
        assert ovs_module.vsctl("get-controller", BRIDGE).strip() == spec.controller
        assert "priority=7" in ovs_module.ofctl("-OOpenFlow13", "dump-flows", BRIDGE)
        await ovsdb.delete_bridge(BRIDGE)
        assert await seen.get() == "ended"


async def test_a_switch_that_is_not_there_has_nothing_to_forget(ovs: OvsHost) -> None:
    async with connected(ovs) as ovsdb:
        await ovsdb.ensure_bridge(SPEC)
        ovs.vswitchd.kill()
        await ovsdb.hang_up(BRIDGE, within=0.1)
        await ovsdb.ensure_bridge(SPEC)
        targets = ovs.vsctl("--no-wait", "get-controller", BRIDGE)
        assert targets.strip() == SPEC.controller


async def test_port_is_made_as_specified(ovs_module: OvsHost, ovsdb: Ovsdb) -> None:
    ids = {"endpoint-id": "n.default-c1"}
    await ovsdb.add_port(
        BRIDGE,
        internal("vvport7", 7, tag=3, external_ids=ids, policing_rate=1000, policing_burst=50),
    )
    assert await ovsdb.wait_ofport("vvport7", 5) == 7
    row = ovsdb.ports(BRIDGE)["vvport7"]
    assert (row.tag, row.type, row.bridge, dict(row.external_ids)) == (3, "internal", BRIDGE, ids)
    assert row.error is None
    assert row.mac_in_use
    port = ovs_module.vsctl("get", "port", "vvport7", "vlan_mode", "tag", "external_ids")
    assert port.split() == ["access", "3", "{endpoint-id=n.default-c1}"]
    interface = ovs_module.vsctl(
        "get", "interface", "vvport7", "ingress_policing_rate", "ingress_policing_burst"
    )
    assert interface.split() == ["1000", "50"]


async def test_a_port_keeps_the_queue_of_its_device(ovs_module: OvsHost, ovsdb: Ovsdb) -> None:
    host = ovs_module.namespace
    bucket = ["root", "tbf", "rate", "10mbit", "burst", "10kb", "latency", "25ms"]
    for link, far in (("queue1", "far1"), ("queue2", "far2")):
        host.run(["ip", "link", "add", link, "up", "type", "veth", "peer", far])
        host.run(["tc", "qdisc", "add", "dev", link, *bucket])
    await ovsdb.add_port(BRIDGE, PortSpec(name="queue1", keeps_queue=True))
    await ovsdb.add_port(BRIDGE, PortSpec(name="queue2"))
    await ovsdb.wait_ofport("queue2", 5)

    def limited() -> list[str]:
        links = ("queue1", "queue2")
        return [
            one for one in links if "tbf" in host.run(["tc", "qdisc", "show", "dev", one]).stdout
        ]

    assert limited() == ["queue1"], "what Open vSwitch does by itself is why ports have the row"
    await ovsdb.add_port(BRIDGE, PortSpec(name="far1", keeps_queue=True))
    assert ovs_module.vsctl("--columns=type", "--bare", "list", "qos").split() == ["linux-noop"]
    await ovsdb.delete_bridge(BRIDGE)
    assert ovs_module.vsctl("--columns=type", "--bare", "list", "qos").split() == []
    for link in ("queue1", "queue2"):
        host.run(["ip", "link", "delete", link])


async def test_a_port_is_limited_and_freed_as_it_runs(ovs_module: OvsHost, ovsdb: Ovsdb) -> None:
    def limits() -> list[str]:
        columns = ("ingress_policing_rate", "ingress_policing_burst")
        return ovs_module.vsctl("get", "interface", "vvport4", *columns).split()

    await ovsdb.add_port(BRIDGE, internal("vvport4", 4))
    await ovsdb.wait_ofport("vvport4", 5)
    before = ovsdb.ports()["vvport4"]
    uuid = ovs_module.vsctl("get", "interface", "vvport4", "_uuid")
    await ovsdb.set_policing("vvport4", rate=10485, burst=2000)
    assert limits() == ["10485", "2000"]
    assert ovsdb.ports()["vvport4"] == replace(before, policing_rate=10485, policing_burst=2000)
    ovs_module.vsctl("set", "interface", "vvport4", "ingress_policing_rate=7")
    await until(ovsdb, lambda: ovsdb.ports()["vvport4"].policing_rate == 7)
    await ovsdb.set_policing("vvport4", rate=0, burst=0)
    assert limits() == ["0", "0"]
    assert ovs_module.vsctl("get", "interface", "vvport4", "_uuid") == uuid
    await ovsdb.set_policing("vvport5", rate=1, burst=1)
    assert "vvport5" not in ovsdb.ports()


async def test_a_port_of_the_switchs_own_has_the_mtu_asked_for(
    ovsdb: Ovsdb, ovs_module: OvsHost
) -> None:
    await ovsdb.add_port(BRIDGE, internal("contivh1", 6))
    await ovsdb.wait_ofport("contivh1", 5)
    before = ovsdb.ports()["contivh1"]
    assert before.mtu_request is None
    await ovsdb.set_mtu("contivh1", 1400)
    assert ovsdb.ports()["contivh1"] == replace(before, mtu_request=1400)
    ovs_module.vsctl("--timeout=10", "wait-until", "interface", "contivh1", "mtu=1400")
    await ovsdb.set_mtu("nobody", 1400)


async def test_tunnel_port_is_a_trunk_with_options(ovs_module: OvsHost, ovsdb: Ovsdb) -> None:
    options = {"remote_ip": "192.0.2.9", "key": "flow", "tos": "inherit", "dst_port": "4789"}
    await ovsdb.add_port(
        BRIDGE, PortSpec(name="vxif192029", type="vxlan", ofport_request=0x8000, options=options)
    )
    assert await ovsdb.wait_ofport("vxif192029", 5) == 0x8000
    assert dict(ovsdb.ports()["vxif192029"].options) == options
    assert ovs_module.vsctl("get", "port", "vxif192029", "vlan_mode").strip() == "trunk"


async def test_a_port_is_dead_without_heartbeats(ovs_module: OvsHost, ovsdb: Ovsdb) -> None:
    host = ovs_module.namespace
    host.run(["ip", "link", "add", "beaten", "up", "type", "veth", "peer", "far"])
    host.run(["ip", "link", "set", "far", "up"])
    continuity = Continuity(identifier=heartbeat.SWITCH, interval=heartbeat.INTERVAL)
    await ovsdb.add_port(BRIDGE, PortSpec(name="beaten", continuity=continuity))
    await ovsdb.wait_ofport("beaten")

    def faults() -> str:
        """Return what Open vSwitch finds wrong with the port's messages."""
        said = ovs_module.appctl("cfm/show", "beaten").splitlines()
        return " ".join(line.partition("fault: ")[2] for line in said)

    async def alive() -> bool:
        return not faults().strip()

    eventually(lambda: faults().split() == ["recv"], "it is dead")
    with host.call(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)) as frames:
        frames.bind(("far", 0))
        beats = Heartbeat(frames, "06:02:00:00:00:35")
        beats.start()
        try:
            await eventually_async(alive, "it is alive")
        finally:
            beats.stop()
    eventually(lambda: faults().split() == ["recv"], "it is dead again")
    host.run(["ip", "link", "delete", "beaten"])


async def test_stale_row_of_the_same_name_is_replaced(ovsdb: Ovsdb) -> None:
    await ovsdb.ensure_bridge(BridgeSpec(name="other", controller="tcp:127.0.0.1:6634"))
    await ovsdb.add_port("other", internal("vvport8", 8, external_ids={"endpoint-id": "old"}))
    await ovsdb.add_port(BRIDGE, internal("vvport8", 9, external_ids={"endpoint-id": "new"}))
    assert await ovsdb.wait_ofport("vvport8", 5) == 9
    assert "vvport8" not in ovsdb.ports("other")
    assert ovsdb.ports(BRIDGE)["vvport8"].external_ids["endpoint-id"] == "new"


async def test_deleted_port_leaves_no_rows(ovs_module: OvsHost, ovsdb: Ovsdb) -> None:
    await ovsdb.add_port(BRIDGE, internal("vvport9", 9))
    await ovsdb.delete_port(BRIDGE, "vvport9")
    assert "vvport9" not in ovsdb.ports()
    assert "vvport9" not in ovs_module.vsctl("--columns=name", "list", "interface")
    await ovsdb.delete_port(BRIDGE, "vvport9")
    await ovsdb.add_port(BRIDGE, internal("vvport9", 9))
    assert await ovsdb.wait_ofport("vvport9", 5) == 9


async def test_a_withdrawn_ports_device_is_the_switchs_no_more(
    ovs_module: OvsHost, ovsdb: Ovsdb
) -> None:
    await ovsdb.add_port(BRIDGE, internal("vvport11", 11))
    await ovsdb.wait_ofport("vvport11", 5)
    for _ in range(2):
        await ovsdb.withdraw_port(BRIDGE, "vvport11")
        assert "vvport11" not in ovsdb.ports()
        assert "vvport11" not in ovs_module.ofctl("show", BRIDGE)


async def test_port_before_its_device_is_not_yet(ovs_module: OvsHost, ovsdb: Ovsdb) -> None:
    await ovsdb.add_port(BRIDGE, PortSpec(name="vvport10", ofport_request=10))
    await until(ovsdb, lambda: ovsdb.ports()["vvport10"].ofport == -1)
    assert "vvport10" in (ovsdb.ports()["vvport10"].error or "")
    with pytest.raises(SwitchUnavailable, match="could not open network device"):
        await ovsdb.wait_ofport("vvport10", 0.1)
    ready = asyncio.gather(ovsdb.wait_ofport("vvport10", 10))
    ovs_module.namespace.run(
        ["ip", "link", "add", "vvport10", "type", "veth", "peer", "name", "vport10"]
    )
    assert list(await ready) == [10]


async def test_a_taken_number_is_reported_as_it_is(ovsdb: Ovsdb) -> None:
    await ovsdb.add_port(BRIDGE, internal("vvport11", 11))
    await ovsdb.wait_ofport("vvport11", 5)
    await ovsdb.add_port(BRIDGE, internal("vvport12", 11))
    assert await ovsdb.wait_ofport("vvport12", 5) != 11


async def test_port_on_no_bridge_is_refused(ovsdb: Ovsdb) -> None:
    with pytest.raises(SwitchRefused, match="bridge nosuch does not exist"):
        await ovsdb.add_port("nosuch", internal("vvport13"))


async def test_a_constraint_is_a_refusal(ovsdb: Ovsdb) -> None:
    with pytest.raises(SwitchRefused, match="ofport_request of vvport14 cannot be"):
        await ovsdb.add_port(BRIDGE, internal("vvport14", 70_000))
    with pytest.raises(SwitchRefused, match="tag of vvport14 cannot be"):
        await ovsdb.add_port(BRIDGE, internal("vvport14", 14, tag=5000))
    assert "vvport14" not in ovsdb.ports()


async def test_one_name_twice_at_once_leaves_one_port(ovsdb: Ovsdb) -> None:
    outcomes = await asyncio.gather(
        *(ovsdb.add_port(BRIDGE, internal("vvport15", n)) for n in (15, 16)),
        return_exceptions=True,
    )
    assert [o for o in outcomes if o is None]
    assert all(o is None or isinstance(o, SwitchRefused) for o in outcomes)
    assert await ovsdb.wait_ofport("vvport15", 5) in {15, 16}


async def test_a_refused_change_takes_no_other_along(ovsdb: Ovsdb) -> None:
    taken = internal("vvport30"), internal("vvport31", members=("vvport30", "nosuch31"))
    outcomes = await asyncio.gather(
        ovsdb.add_port(BRIDGE, internal("vvport32")),
        ovsdb.add_port("nosuch", internal("vvport33")),
        ovsdb.add_port(BRIDGE, internal("vvport34", tag=5000)),
        *(ovsdb.add_port(BRIDGE, spec) for spec in taken),  # one device is of both
        ovsdb.add_port(BRIDGE, internal("vvport35")),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes[1:3]] == [SwitchRefused] * 2
    assert outcomes[0] is outcomes[3] is outcomes[5] is None
    assert {"vvport32", "vvport35"} <= ovsdb.ports(BRIDGE).keys()
    assert not {"vvport33", "vvport34"} & ovsdb.ports().keys()


def written(ovs: OvsHost) -> int:
    """Return the number of transactions that changed the ports of bridges."""
    lines = (ovs.rundir / "conf.db").read_text().splitlines()
    return sum('"ports"' in line and "vvport" in line for line in lines)


async def test_twenty_ports_at_once(ovs_module: OvsHost, ovsdb: Ovsdb) -> None:
    numbers = range(100, 120)
    before = written(ovs_module)
    await asyncio.gather(*(ovsdb.add_port(BRIDGE, internal(f"vvport{n}", n)) for n in numbers))
    assert written(ovs_module) - before <= 5, "a change waits for the transaction in flight alone"
    given = await asyncio.gather(*(ovsdb.wait_ofport(f"vvport{n}", 10) for n in numbers))
    assert list(given) == list(numbers)
    await asyncio.gather(*(ovsdb.delete_port(BRIDGE, f"vvport{n}") for n in numbers))
    assert not [name for name in ovsdb.ports(BRIDGE) if name.startswith("vvport")]


async def test_external_ids_of_a_bridge(ovs_module: OvsHost, ovsdb: Ovsdb) -> None:
    await ovsdb.set_bridge_external_ids(BRIDGE, {"vrf-a": "1", "vrf-b": "2"})
    await ovsdb.set_bridge_external_ids(BRIDGE, {"vrf-a": "3", "vrf-b": None, "vrf-c": None})
    assert dict(ovsdb.bridge_external_ids(BRIDGE)) == {"vrf-a": "3"}
    assert ovs_module.vsctl("br-get-external-id", BRIDGE).strip() == "vrf-a=3"
    assert ovsdb.bridge_external_ids("nosuch") == {}


async def test_a_foreign_change_is_seen(ovs_module: OvsHost, ovsdb: Ovsdb) -> None:
    changed = ovsdb.changed()
    ovs_module.vsctl("add-port", BRIDGE, "tap0", "--", "set", "interface", "tap0", "type=internal")
    async with asyncio.timeout(WITHIN):
        await changed.wait()
    await until(ovsdb, lambda: "tap0" in ovsdb.ports(BRIDGE))
    ovs_module.vsctl("del-port", BRIDGE, "tap0")
    await until(ovsdb, lambda: "tap0" not in ovsdb.ports(BRIDGE))


async def test_server_restart_is_survived(ovs: OvsHost) -> None:
    async with connected(ovs) as ovsdb:
        await ovsdb.ensure_bridge(SPEC)
        await ovsdb.add_port(BRIDGE, internal("vvport1", 1))
        await ovsdb.wait_ofport("vvport1", 5)
        await asyncio.to_thread(ovs.server.kill)
        await until(ovsdb, lambda: not ovsdb.connected)
        assert "vvport1" in ovsdb.ports(BRIDGE)
        through_the_outage = asyncio.gather(ovsdb.add_port(BRIDGE, internal("vvport2", 2)))
        await asyncio.to_thread(ovs.server.start)
        await through_the_outage
        assert ovsdb.connected
        assert set(ovsdb.ports(BRIDGE)) >= {"vvport1", "vvport2"}
        assert await ovsdb.wait_ofport("vvport2", 20) == 2


async def test_change_in_a_long_outage_fails_and_is_never_applied(ovs: OvsHost) -> None:
    async with connected(ovs, limit=0.3) as ovsdb:
        await ovsdb.ensure_bridge(SPEC)
        await asyncio.to_thread(ovs.server.kill)
        with pytest.raises(SwitchUnavailable):
            await ovsdb.add_port(BRIDGE, internal("vvport3", 3))
        await asyncio.to_thread(ovs.server.start)
        await until(ovsdb, lambda: ovsdb.connected)
        assert "vvport3" not in ovsdb.ports()


async def test_a_server_that_hangs_is_an_error_in_time(ovs: OvsHost) -> None:
    async with connected(ovs, limit=0.3) as ovsdb:
        await ovsdb.ensure_bridge(SPEC)
        ovs.server.pause()
        with pytest.raises(SwitchUnavailable, match="does not answer"):
            await ovsdb.add_port(BRIDGE, internal("vvport4", 4))
        ovs.server.resume()
        assert await ovsdb.wait_ofport("vvport4", 10) == 4


async def test_a_replica_that_dies_is_said(
    ovs_module: OvsHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(ovs_module) as ovsdb:

        def fail(_self: Replica) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr(Replica, "_refresh", fail)
        assert ovsdb._replica is not None
        ovsdb._replica.wake()
        with pytest.raises(RuntimeError, match="a bug"):
            await ovsdb.follow()
        assert not ovsdb.connected
        with pytest.raises(SwitchUnavailable):
            await ovsdb.ensure_bridge(SPEC)


async def test_no_server_is_an_error_in_time(ovs_module: OvsHost) -> None:
    with pytest.raises(SwitchUnavailable, match="no Open vSwitch database"):
        await Ovsdb.connect(f"unix:{ovs_module.rundir}/nothing.sock", wait=0.3)


async def test_after_close_calls_fail(ovs_module: OvsHost) -> None:
    async with connected(ovs_module) as ovsdb:
        pass
    with pytest.raises(SwitchUnavailable):
        await ovsdb.delete_port(BRIDGE, "vvport1")


async def test_a_bridge_is_reported_as_others_change_it(ovs_module: OvsHost, ovsdb: Ovsdb) -> None:
    def is_as(controllers: tuple[str, ...], fail_mode: str | None) -> bool:
        row = ovsdb.bridge(BRIDGE)
        return row is not None and (row.controllers, row.fail_mode) == (controllers, fail_mode)

    await until(ovsdb, lambda: is_as((SPEC.controller,), "secure"))
    ovs_module.vsctl("set-controller", BRIDGE, "tcp:127.0.0.1:1", "tcp:127.0.0.1:2")
    await until(ovsdb, lambda: ovsdb.bridge(BRIDGE) is not None)
    await until(
        ovsdb,
        lambda: (
            (row := ovsdb.bridge(BRIDGE)) is not None
            and set(row.controllers) == {"tcp:127.0.0.1:1", "tcp:127.0.0.1:2"}
        ),
    )
    ovs_module.vsctl("del-controller", BRIDGE, "--", "del-fail-mode", BRIDGE)
    await until(ovsdb, lambda: is_as((), None))
    await ovsdb.ensure_bridge(SPEC)
    assert is_as((SPEC.controller,), "secure")


async def test_a_lock_has_one_holder_and_only_it_writes(ovs_module: OvsHost) -> None:
    remote = f"unix:{ovs_module.db_socket}"
    first = await Ovsdb.connect(remote, lock="the_lock")
    async with await Ovsdb.connect(remote, limit=0.5, lock="the_lock") as second:
        assert await first.hold_lock(5)
        assert not await second.hold_lock(0.2)
        assert (first.contended, second.contended) == (False, True)
        await first.ensure_bridge(SPEC)
        with pytest.raises(SwitchUnavailable, match="controlled by another agent"):
            await second.delete_bridge(BRIDGE)
        await first.close()
        assert await second.hold_lock(5)
        assert not second.contended
        await second.ensure_bridge(SPEC)


async def test_a_lock_outlasts_a_restart_of_the_server(ovs_module: OvsHost) -> None:
    async with await Ovsdb.connect(f"unix:{ovs_module.db_socket}", lock="the_lock") as ovsdb:
        assert await ovsdb.hold_lock(5)
        await asyncio.to_thread(ovs_module.server.restart)
        await until(ovsdb, lambda: ovsdb.connected)
        assert await ovsdb.hold_lock(10)
        await ovsdb.ensure_bridge(SPEC)


async def test_a_server_that_hangs_does_not_answer(ovs: OvsHost) -> None:
    async with connected(ovs) as ovsdb:
        await ovsdb.ping()
        ovs.server.pause()
        try:
            with pytest.raises(SwitchUnavailable, match=r"ovsdb-server at .* does not answer"):
                await ovsdb.ping()
        finally:
            ovs.server.resume()
        await ovsdb.ping()
