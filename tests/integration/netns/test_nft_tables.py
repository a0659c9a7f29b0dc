"""The agent's rules in the real nftables, on a host that has no iptables."""

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from core.errors import HostError
from netplugin.bridges.guards import host_guard, pod_guard
from netplugin.bridges.host import host_names
from netplugin.bridges.host.host_access import (
    CHAINS,
    FORWARD,
    GUARD,
    POSTROUTING,
    accepted,
    guards,
    masquerade,
)
from netplugin.bridges.services import service_access
from netplugin.kernel.firewall import iptables, nft_tables
from netplugin.kernel.firewall.iptables import Iptables, IptablesRule
from netplugin.kernel.firewall.iptables_chains import OwnChains
from netplugin.kernel.firewall.nft_tables import NftTable
from netplugin.world.bridges.management_ends import NOTHING
from tests.bed.netns import Namespace

pytestmark = pytest.mark.ovs

PRIVATE = IPv4Network("172.19.0.0/16")
ABSENT = {4: "iptables-absent", 6: "ip6tables-absent"}
WANTED = [masquerade(PRIVATE), *guards(GUARD), *accepted(FORWARD)]
TARGET = "-p tcp -m tcp -j DNAT --to-destination 10.20.0.2:8080"
SERVICE = {
    "nat": {
        "CONTIV-SERVICES": ["-d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j CONTIV-S"],
        "CONTIV-S": [
            "-m recent --name CONTIV-T --rcheck --seconds 60 --reap -j CONTIV-T",
            "-j CONTIV-T",
        ],
        "CONTIV-T": ["-m recent --name CONTIV-T --set", TARGET],
    }
}


@pytest.fixture(autouse=True)
def without_iptables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a host that has no iptables, and an agent that has set no rule yet."""
    monkeypatch.setattr(iptables, "PROGRAM", ABSENT[4])
    monkeypatch.setattr(iptables, "PROGRAM6", ABSENT[6])
    fresh(monkeypatch)


def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what was set, as an agent that starts."""
    monkeypatch.setattr(nft_tables, "TABLES", {version: NftTable(version) for version in (4, 6)})


def listed(host: Namespace) -> str:
    return host.run(["nft", "list", "ruleset"]).stdout


def rules(host: Namespace) -> list[str]:
    """Return what is listed, in whatever order chains were made in, without the words."""
    return sorted(line for line in listed(host).splitlines() if "comment" not in line)


async def test_rules_are_there_once_and_go(host: Namespace) -> None:
    ours, chains = Iptables(CHAINS), OwnChains()
    assert await ours.found() == []
    assert await ours.keep(WANTED)
    assert not await ours.keep(WANTED), "the second time there is nothing to do"
    assert sorted(await ours.found()) == sorted(map(str, WANTED))
    await chains.replace(4, SERVICE)
    shown = listed(host)
    assert "dnat to 10.20.0.2:8080" in shown
    assert "flags dynamic,timeout" in shown
    assert await chains.rules(4, "nat", "CONTIV-T") == SERVICE["nat"]["CONTIV-T"]
    await chains.replace(4, {"nat": {"CONTIV-SERVICES": []}})
    shown = listed(host)
    assert ("dnat to" in shown, "flags dynamic" in shown) == (False, False)
    await chains.remove(["nat"])
    assert await ours.keep([])
    assert listed(host) == ""


async def test_an_agent_that_starts_goes_on_from_what_is_there(
    host: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, chains = Iptables(CHAINS), OwnChains()
    await ours.keep(WANTED)
    await chains.replace(4, SERVICE)
    before = listed(host)
    fresh(monkeypatch)
    assert sorted(await ours.found()) == sorted(map(str, WANTED))
    assert not await ours.keep(WANTED)
    assert listed(host) == before
    assert await chains.found(["nat"]) != []


async def test_a_table_that_cannot_be_read_is_no_missing_one(
    host: Namespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Else an agent that starts at such a moment would take off the rules of the one before it."""
    ours = Iptables(CHAINS)
    assert await ours.keep(WANTED)
    before = listed(host)
    fresh(monkeypatch)
    busy = tmp_path / "nft"
    busy.write_text('#!/bin/sh\ncase "$*" in *"list table "*) exit 1;; esac\nexec nft "$@"\n')
    busy.chmod(0o755)
    with monkeypatch.context() as patched:
        patched.setattr(nft_tables, "PROGRAM", str(busy))
        with pytest.raises(HostError, match="list table ip contiv"):
            await ours.keep(WANTED)
    assert listed(host) == before
    assert not await ours.keep(WANTED)
    assert listed(host) == before


@pytest.mark.parametrize(
    "removal",
    ["flush ruleset", "delete table ip contiv", "flush chain ip contiv contiv-nat-POSTROUTING"],
)
async def test_what_others_removed_is_set_again(host: Namespace, removal: str) -> None:
    ours, chains = Iptables(CHAINS), OwnChains()
    await ours.keep(WANTED)
    await chains.replace(4, SERVICE)
    before = rules(host)
    host.run(["nft", removal])
    assert rules(host) != before
    await ours.keep(WANTED)
    assert rules(host) == before


async def test_what_cannot_be_set_is_told_and_changes_nothing(host: Namespace) -> None:
    ours = Iptables(CHAINS)
    await ours.keep(WANTED)
    before = listed(host)
    for target in (("-j", "SNAT", "--to-source", "nobody"), ("-j", "TPROXY")):
        wrong = IptablesRule(chain=POSTROUTING, match=(), target=target)
        with pytest.raises(HostError, match="nft"):
            await ours.keep([*WANTED, wrong])
        assert listed(host) == before
    assert sorted(await ours.found()) == sorted(map(str, WANTED))


async def test_all_other_producers_rules_are_taken(host: Namespace) -> None:
    private = PRIVATE
    for version in (4, 6):
        await OwnChains().replace(version, {"nat": {}, "filter": {}})
    await Iptables(pod_guard.CHAINS).keep(pod_guard.PAST_SWITCH, (4,))
    await Iptables(service_access.CHAINS).keep(service_access.loopback_guards(), (4,))
    names = host_names.rules(IPv4Address("10.96.0.10"), {"udp": 5353, "tcp": 5354})
    await Iptables(host_names.CHAINS).keep(names, (4,))
    own = host_guard.chains(4, NOTHING, private)
    await OwnChains(host_guard.PREFIX).replace(4, own)
    await Iptables(host_guard.CHAINS).keep(host_guard.hooks(4, private), (4,))
    shown = listed(host)
    assert 'iifname "vvport*"' in shown
    assert "dnat to 127.0.0.1:5353" in shown
    assert f"jump contiv-raw-{host_guard.ARRIVED}" in shown
