"""What an agent tells others of itself."""

import pytest

from core import keys
from daemons import flags
from netplugin.masters import registration
from netplugin.settings import FLAGS, AgentSettings, resolve


def settings(*more: str) -> AgentSettings:
    """Return the settings of a host in bridge mode."""
    modes = ("--mode=kubernetes", "--netmode=vlan", "--fwdmode=bridge", "--vlan-uplinks=eth1")
    given = (*modes, "--host=h1", "--ctrl-ip=10.0.0.2", *more)
    values = flags.read("netplugin", FLAGS, given, {}, "1")
    assert values is not None
    return resolve(values, lambda: "192.0.2.7")


@pytest.mark.parametrize(
    ("more", "address"),
    [((), "10.0.0.2"), (("--rest-address=127.0.0.9:0",), "127.0.0.9")],
)
def test_masters_find_the_rest_routes_by_the_port_in_use(
    more: tuple[str, ...], address: str
) -> None:
    instance = registration.rest_instance(settings(*more), 41234, "1")
    assert (instance.service, instance.hostname) == (keys.SERVICE_AGENT_REST, "h1")
    assert (instance.address, instance.port) == (address, 41234)
