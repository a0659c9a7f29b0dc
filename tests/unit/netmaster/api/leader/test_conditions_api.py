"""On which hosts an object is realised: by the revisions that agents have applied."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from core import keys
from core.errors import NotFound
from core.ids import HostLabel
from netmaster.api.leader import conditions_api
from netmaster.api.leader.conditions_api import ConditionsApi
from netmaster.host_progress import NO_AGENT, NOT_REPORTED, OVERDUE
from netmaster.plan.objects import group, policy, rule
from netmaster.plan.show.conditions import Condition
from objdb.api import Change, Put
from ofnet.rpc.control import AgentReport, Node
from state import codec
from state.records import HostRecord, ServiceInstance
from tests.unit.netmaster.scene import a_group, a_policy
from tests.unit.netmaster.term import Term, term

NODES = {HostLabel(f"h{number}"): Node(f"192.0.2.{number}", 9002) for number in (1, 2)}
H1, H2 = NODES
PREFIXES = (keys.NETWORKS, keys.GROUPS, keys.GROUP_OBJECTS, keys.RULES, keys.ENDPOINTS)


@dataclass
class Leading:
    """A leader, and what two hosts report to it."""

    lead: Term
    reports: dict[Node, AgentReport] = field(default_factory=dict)
    now: float = 1000.0
    most: int = conditions_api.MOST
    api: ConditionsApi = field(init=False)

    def __post_init__(self) -> None:
        self.api = ConditionsApi(
            self.lead.backend,
            self.lead.committer,
            self.reports,
            now=lambda: self.now,
            clock=lambda: self.now,
            most=self.most,
        )

    async def host(self, label: HostLabel, *, registered: bool = True) -> None:
        node = NODES.get(label, Node("192.0.2.9", 9002))
        record = HostRecord(label=label, control_ip=node.host, vtep_ip=node.host, vxlan_port=4789)
        puts = [Put(keys.host(label), codec.encode(record))]
        if registered:
            end = ServiceInstance(
                service=keys.SERVICE_NETPLUGIN, address=node.host, port=node.port, hostname=label
            )
            key = keys.service(end.service, node.host, node.port)
            puts.append(Put(key, codec.encode(end)))
        for put in puts:
            await self.lead.backend.commit([Change((), (put,))])

    def reach(self, label: HostLabel, *errors: str, **more: float) -> None:
        """Have a host report that it has applied all that is stored now."""
        revisions = dict.fromkeys(PREFIXES, self.lead.committer.revision)
        self.reports[NODES[label]] = AgentReport(
            node=NODES[label],
            host=label,
            revisions=revisions,
            errors=errors,
            heard=self.now,
            repeat=more.get("repeat"),
        )

    async def of(self, kind: str, key: str, *, errors: bool = True) -> Condition:
        (found,) = (await self.api.of(kind, key, errors=errors))["conditions"]
        return found


@pytest.fixture
async def there() -> AsyncIterator[Leading]:
    """Lead two hosts that have applied a network with a group, a policy, and an endpoint."""
    async with term() as lead:
        leading = Leading(lead)
        await lead.network("n1")
        await lead.committer.submit(partial(policy.create, posted=a_policy("p1")))
        for number in (1, 2):
            await lead.rule(str(number))
        of_policy = a_group("web", policies=["p1"])
        await lead.committer.submit(partial(group.create, posted=of_policy))
        await lead.endpoint("c1", host=H1)
        for label in NODES:
            await leading.host(label)
            leading.reach(label)
        yield leading


OBJECTS = {
    "network": "default:n1",
    "endpointGroup": "default:web",
    "policy": "default:p1",
    "rule": "default:p1:1",
    "endpoint": "n1.default-c1",
}


@pytest.mark.parametrize(("kind", "key"), OBJECTS.items())
async def test_each_kind_is_realised_where_its_last_change_is_applied(
    there: Leading, kind: str, key: str
) -> None:
    found = await there.of(kind, key)
    assert (found["status"], found["hosts"], found["of"], found["reason"]) == (True, 2, 2, "")
    there.reports[NODES[H2]] = AgentReport(node=NODES[H2], host=H2, revisions={})
    found = await there.of(kind, key)
    assert (found["status"], found["hosts"], found["of"], found["host"]) == (False, 1, 2, "h2")
    assert " at 0 of " in found["reason"]
    with pytest.raises(NotFound, match=f"{kind} nobodys not found"):
        await there.of(kind, "nobodys")


async def test_changes_of_others_do_not_make_an_object_late(there: Leading) -> None:
    await there.lead.network("n2", "10.9.0.0/16")
    assert (await there.of("network", "default:n1"))["status"]
    late = await there.of("network", "default:n2")
    assert (late["status"], late["hosts"], late["host"]) == (False, 0, "h1")


async def test_a_policy_is_late_while_a_host_has_a_rule_that_was_removed(there: Leading) -> None:
    await there.lead.committer.submit(partial(rule.delete, key="default:p1:2"))
    assert not (await there.of("policy", "default:p1"))["status"]
    assert (await there.of("rule", "default:p1:1"))["status"]
    for label in NODES:
        there.reach(label)
    assert (await there.of("policy", "default:p1"))["status"]


async def test_a_policy_is_late_while_a_group_that_names_it_is(there: Leading) -> None:
    another = a_group("db", policies=["p1"])
    await there.lead.committer.submit(partial(group.create, posted=another))
    assert not (await there.of("policy", "default:p1"))["status"]


async def test_since_when_it_is_so_is_kept_until_it_changes(there: Leading) -> None:
    first = (await there.of("network", "default:n1"))["since"]
    assert first == "1970-01-01T00:16:40+00:00"
    there.now += 60
    assert (await there.of("network", "default:n1"))["since"] == first
    there.reports[NODES[H2]] = AgentReport(node=NODES[H2], host=H2, revisions={})
    assert (await there.of("network", "default:n1"))["since"] == "1970-01-01T00:17:40+00:00"


async def test_since_when_is_known_of_so_many_objects(there: Leading) -> None:
    few = replace(there, most=1)
    first = (await few.of("network", "default:n1"))["since"]
    few.now += 60
    assert (await few.of("network", "default:n1"))["since"] == first
    await few.of("policy", "default:p1")
    assert (await few.of("network", "default:n1"))["since"] == "1970-01-01T00:17:40+00:00"


async def test_a_host_without_agent_is_not_waited_for_but_that_of_an_endpoint_is(
    there: Leading,
) -> None:
    gone = HostLabel("h3")
    await there.host(gone, registered=False)
    await there.lead.endpoint("c3", host=gone)
    for label in NODES:
        there.reach(label)
    told = await there.api.of("network", "default:n1", errors=True)
    assert (told["conditions"][0]["of"], told["absent"]) == (2, ["h3"])
    found = await there.of("endpoint", "n1.default-c3")
    assert (found["status"], found["of"], found["host"]) == (False, 3, "h3")
    assert found["reason"] == NO_AGENT


async def test_the_reason_has_the_errors_of_the_host_for_who_may_see_them(there: Leading) -> None:
    there.reach(H1, "table full", repeat=1.0)
    await there.lead.network("n2", "10.9.0.0/16")
    found = await there.of("network", "default:n2")
    assert found["reason"].endswith("; table full")
    assert "table full" not in (await there.of("network", "default:n2", errors=False))["reason"]
    there.now += 10
    assert OVERDUE in (await there.of("network", "default:n2"))["reason"]
    del there.reports[NODES[H1]]
    assert (await there.of("network", "default:n2"))["reason"] == NOT_REPORTED
