"""The agent's flags, of both generations."""

from ipaddress import IPv4Address

import pytest

from core.errors import UsageError
from daemons import flags
from netplugin.settings import FLAGS, AgentSettings, resolve
from ofnet.world import FwdMode

LATER = ("--mode=kubernetes", "--netmode=vlan", "--fwdmode=bridge", "--vlan-uplinks=eth1")
OLDER = ("-cluster-store", "etcd://10.0.0.1:2379")


def resolved(*arguments: str) -> AgentSettings:
    """Return what a command line means."""
    values = flags.read("netplugin", FLAGS, arguments, {}, "1")
    assert values is not None
    return resolve(values, lambda: "192.0.2.7")


def test_the_later_generation_names_its_modes() -> None:
    settings = resolved(*LATER, "--host=h", "--ctrl-ip=10.0.0.2")
    assert (settings.mode, settings.fwd_mode, settings.host) == (
        "kubernetes",
        FwdMode.BRIDGE,
        "h",
    )
    assert settings.ctrl_ip == IPv4Address("10.0.0.2")
    assert settings.vtep_ip == IPv4Address("192.0.2.7")


def test_the_older_generation_leaves_modes_to_the_cluster() -> None:
    settings = resolved(*OLDER, "-host-label", "h", "-ctrl-ip", "10.0.0.2")
    assert (settings.mode, settings.fwd_mode) == ("docker", None)
    assert settings.store.members == ("10.0.0.1:2379",)
    assert settings.vtep_ip == IPv4Address("10.0.0.2")
    assert resolved(*OLDER, "-vtep-ip", "10.0.0.3").vtep_ip == IPv4Address("10.0.0.3")


def test_uplinks_are_repeated_or_listed_and_counted_once() -> None:
    # the original takes eth1 for a repetition of eth10
    settings = resolved(*OLDER, "-vlan-if", "eth10, eth1", "-vlan-if", "eth2,,eth10")
    assert settings.uplinks == ("eth10", "eth1", "eth2")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (LATER[:3], "vlan-uplinks must be set when using VLAN mode"),
        ((*LATER, "--ctrl-ip=x"), "invalid netplugin control IP: x"),
        ((*LATER, "--vtep-ip=x"), "invalid netplugin VTEP IP: x"),
        ((*LATER, "--host=a/b"), "invalid netplugin host label: 'a/b'"),
        ((*LATER, "--vxlan-port=0"), "netplugin vxlan-port is an integer between 1-65535, got '0'"),
        ((*OLDER, "--netmode=vlan"), "vlan-uplinks must be set when using VLAN mode"),
        ((*OLDER, "-plugin-mode=x"), "unknown netplugin mode: x"),
    ],
)
def test_a_wrong_flag_is_named(arguments: tuple[str, ...], text: str) -> None:
    with pytest.raises(UsageError) as refusal:
        resolved(*arguments)
    assert str(refusal.value) == text
