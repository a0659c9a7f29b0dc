"""What flows do besides where connections are recorded: tell them apart, report drops (ADR 48).

In come the flows of all other features, each as it is without records; out comes what replaces it.
Two things change:

* Before a packet finds its way out, and before a service's address is translated, the switch hashes
  addresses and ports, and does nothing with the hash. Whatever an action has read the datapath has
  to match, so each direction of a connection has a datapath flow of its own, with counters that
  `netplugin.flow_records` reads.
* What drops packets reports their headers to the agent, within a meter (`ofnet.drops`).
"""

from typing import Final

from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import TO_CONTROLLER, Conntrack, Deal, Instructions, Report
from ofnet.openflow.meters import Meter
from ofnet.tables import TABLES, TableId

# Connections are told apart behind policy: of what is denied, the datapath goes on to have one flow
# for many ports, or a pod that scans would make one for each. The last table that all packets pass
# after policy is table 6; answers of services leave it by connection tracking.

_TOLD_APART: Final = Deal(1)
_OF_ARP: Final = ("eth_type", oxm.ETH_ARP)
_ON_THE_WAY_OUT: Final = frozenset({TableId.IP, TableId.MAC_DEST})
_REPORTING: Final = frozenset(
    table.id for table in TABLES.values() if Report.name in table.actions
) - {TableId.POLICY_LOG}


def recorded(flow: Flow) -> Flow:
    """Return what a flow is where connections are recorded; most are as they are without."""
    done = flow.instructions
    if flow.table is TableId.SRV_PROXY_SNAT and _leaves(done):
        return _with(flow, _TOLD_APART)
    if flow.table is TableId.SRV_PROXY_DNAT and Conntrack.name in done.names:
        return _with(flow, _TOLD_APART)
    if drops(flow):
        return _with(flow, Report(Meter.of_drops(bytes((flow.table,)) + flow.match.wire)))
    return flow


def drops(flow: Flow) -> bool:
    """Return whether a flow, as it is without records, drops packets that are reported."""
    nothing = not flow.instructions.content
    return nothing and flow.table in _REPORTING and _OF_ARP not in flow.match.fields


def reports_drops(flow: Flow) -> bool:
    """Return whether the agent gets what a flow keeps from its destination.

    Those are flows that drop, with or without `log` of their rule, and those that have the agent
    refuse what is for a service without a provider.
    """
    done = flow.instructions
    if flow.table is TableId.SRV_PROXY_DNAT and done == TO_CONTROLLER:
        return True
    return done.goto is None and done.names == _REPORT_ALONE


def only_reports(flow: Flow) -> bool:
    """Return whether a flow's packets come to the agent for nothing but the record of a drop."""
    return any(meter.of_drop for meter in flow.instructions.meters)


_REPORT_ALONE: Final = frozenset({Report.name})


def _leaves(done: Instructions) -> bool:
    if done.goto in _ON_THE_WAY_OUT:
        return True
    return any(isinstance(one, Conntrack) and one.table in _ON_THE_WAY_OUT for one in done.actions)


def _with(flow: Flow, action: Deal | Report) -> Flow:
    done = flow.instructions
    more = Instructions((action, *done.actions), done.metadata, done.goto, done.meter)
    return Flow(flow.owner, flow.table, flow.priority, flow.match, more)
