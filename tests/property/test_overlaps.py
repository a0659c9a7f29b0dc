"""An overlap is refused as a walk over all networks of the tenant, in their order, refuses it."""

from functools import partial

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from contivmodel.objects import Network, Tenant
from core import keys
from core.addresses import AddressRange
from core.errors import ContivError
from netmaster.ipam.claims import claim
from netmaster.ipam.intervals import Intervals
from netmaster.plan.objects import globals as settings
from netmaster.plan.objects import network, tenant
from netmaster.stored import Write
from netmaster.view import View

interval = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(
    lambda ends: (min(ends), max(ends))
)


@given(added=st.lists(interval, max_size=12), removed=st.sets(st.integers(0, 11)), asked=interval)
def test_intervals_are_found_as_by_a_walk(
    added: list[tuple[int, int]], removed: set[int], asked: tuple[int, int]
) -> None:
    intervals = Intervals()
    for number, one in enumerate(added):
        intervals.add(one, str(number))
    gone = [number for number in removed if number < len(added)]
    for number in gone:
        intervals.remove(added[number], str(number))
    assert sorted(intervals.overlapping(asked)) == sorted(
        str(number)
        for number, (first, last) in enumerate(added)
        if number not in gone and first <= asked[1] and asked[0] <= last
    )


TENANTS = ("default", "blue")
last_octet = st.integers(0, 127)
bounded = st.builds("10.1.1.{}-10.1.1.{}/24".format, last_octet, last_octet)
block = st.builds("10.1.1.{}/{}".format, last_octet, st.integers(24, 31))
block6 = st.builds("2001:db8::{:x}/{}".format, st.integers(0, 4095), st.integers(116, 127))


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Draw a network; its range may be of any kind, ends in the wrong order included."""
    owner, name = draw(st.sampled_from(TENANTS)), f"n{draw(st.integers(0, 30))}"
    return Network(
        key=f"{owner}:{name}",
        tenant_name=owner,
        network_name=name,
        encap="vxlan",
        nw_type="data",
        subnet=draw(bounded | block),
        ipv6_subnet=draw(st.just("") | block6),
    )


class Networks(RuleBasedStateMachine):
    """Networks come, also such as overlap others, change and go; others are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.view = View()
        flags = settings.StartupFlags(fwd_mode="routing", infra_type="default")
        self.view.apply(settings.startup(self.view, flags).writes)
        for name in TENANTS:
            self.view.apply(tenant.create(self.view, Tenant(tenant_name=name)).writes)
        self.model: dict[str, Network] = {}

    @rule(put=networks())
    def put(self, put: Network) -> None:
        self.view.apply((Write(keys.obj(Network.kind, put.key), put, new=False),))
        self.model.pop(put.key, None)
        self.model[put.key] = put

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        if self.model:
            key = data.draw(st.sampled_from(list(self.model)))
            self.view.apply((Write(keys.obj(Network.kind, key), None, new=False),))
            del self.model[key]

    @rule(wanted=networks())
    def ask(self, wanted: Network) -> None:
        asked = wanted.model_copy(update={"network_name": "new"})
        expected = next(filter(None, map(partial(conflict, asked), self.model.values())), None)
        text = refused(self.view, asked)
        if expected is None:
            assert text is None or "conflicts with" not in text
        else:
            assert text == expected


def refused(view: View, asked: Network) -> str | None:
    """Return the text with which a network is refused; None if it may be created."""
    try:
        network.create(view, asked)
    except ContivError as exc:
        return str(exc)
    return None


def conflict(asked: Network, other: Network) -> str | None:
    """Return how the original refuses a network that overlaps another one."""
    if other.tenant_name != asked.tenant_name:
        return None
    one, two = claim(asked), claim(other)
    if one.v6 and two.v6 and one.v6.overlaps(two.v6):
        return f"network {other.network_name} conflicts with subnetv6  {asked.ipv6_subnet}"
    if one.v4 and two.v4 and claim_the_same(one.v4, two.v4):
        return f"network {other.network_name} conflicts with subnet {asked.subnet}"
    return None


def claim_the_same(one: AddressRange, other: AddressRange) -> bool:
    """Return whether two ranges claim an address both."""
    (low, high), (other_low, other_high) = one.extent, other.extent
    return low <= other_high and other_low <= high


TestNetworks = Networks.TestCase
