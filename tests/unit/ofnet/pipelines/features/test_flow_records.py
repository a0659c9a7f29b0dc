"""Where flows are recorded, others tell connections apart and report drops, and do as before."""

from dataclasses import replace

import pytest

from netplugin.world.bridges.port_names import FIRST_VTEP, LAST_VTEP
from ofnet.changes import EVERYTHING
from ofnet.desired import Desired
from ofnet.flows import Flow, FlowKey, table_of
from ofnet.openflow import oxm
from ofnet.openflow.actions import Conntrack, Deal, Report
from ofnet.openflow.meters import DROP_BURST, DROP_RATE
from ofnet.pipelines.features import flow_records
from ofnet.tables import TABLES, TableId
from ofnet.world import Bridge, World
from tests.unit.ofnet.full_worlds import worlds

OUT = {TableId.IP, TableId.MAC_DEST}


def flows(bridge: Bridge, of: World) -> dict[FlowKey, Flow]:
    desired = Desired(bridge)
    assert not desired.update(of, EVERYTHING).faults
    return dict(desired.flows)


def without(flow: Flow) -> Flow:
    """Return a flow as it is without records."""
    done = flow.instructions
    added = {
        Deal(1),
        *(one for one in done.actions if isinstance(one, Report) and one.meter.of_drop),
    }
    kept = tuple(one for one in done.actions if one not in added)
    plain = type(done)(kept, done.metadata, done.goto, done.meter)
    return Flow(flow.owner, flow.table, flow.priority, flow.match, plain)


@pytest.mark.parametrize(("bridge", "of"), list(worlds()))
def test_flows_do_what_they_did_and_nothing_else(bridge: Bridge, of: World) -> None:
    off = flows(bridge, of)
    on = flows(bridge, replace(of, flow_records=True))
    assert {key: without(flow) for key, flow in on.items()} == off
    assert on != off


@pytest.mark.parametrize(("bridge", "of"), list(worlds()))
def test_connections_are_told_apart_behind_policy_and_before_translation(
    bridge: Bridge, of: World
) -> None:
    on = flows(bridge, replace(of, flow_records=True)).values()
    told = [flow for flow in on if Deal(1) in flow.instructions.actions]
    assert {flow.table for flow in told} == {TableId.SRV_PROXY_DNAT, TableId.SRV_PROXY_SNAT}
    for flow in on:
        done = flow.instructions
        tracked = [one.table for one in done.actions if isinstance(one, Conntrack)]
        if flow.table == TableId.SRV_PROXY_SNAT and ({done.goto, *tracked} & OUT):
            assert done.actions[0] == Deal(1), flow
        if flow.table == TableId.SRV_PROXY_DNAT and tracked:
            assert done.actions[0] == Deal(1), flow


@pytest.mark.parametrize(("bridge", "of"), list(worlds()))
def test_whatever_drops_ip_reports_it_within_a_meter(bridge: Bridge, of: World) -> None:
    off = flows(bridge, of)
    on = flows(bridge, replace(of, flow_records=True))
    dropping = [key for key, flow in off.items() if not flow.instructions.content]
    assert any(table_of(key) == TableId.POLICY for key in dropping)
    for key in dropping:
        flow = on[key]
        if ("eth_type", oxm.ETH_ARP) in flow.match.fields:
            assert flow == off[key]
            continue
        assert "report" in TABLES[flow.table].actions, flow
        (report,) = flow.instructions.actions
        assert isinstance(report, Report)
        assert (report.meter.rate, report.meter.burst) == (DROP_RATE, DROP_BURST)
        # ports of pods, and of their hosts, have meters of their own numbers
        assert FIRST_VTEP <= report.meter.id <= LAST_VTEP
        assert flow_records.reports_drops(flow)
        assert flow_records.only_reports(flow)
    logged = [flow for flow in on.values() if flow.instructions.names == {Report.name}]
    others = [flow for flow in logged if not flow_records.only_reports(flow)]
    assert others == [flow for flow in off.values() if Report.name in flow.instructions.names]
