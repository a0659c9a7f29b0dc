"""What tests of uplinks share."""

from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.waiting import eventually

CARDS = ("up0", "up1", "up2")


BOND = "uplinkPort"


def aggregate(bed: Bed) -> None:
    """Have LACP begin, at a pace at which a partner's silence is noticed within seconds."""
    for host in bed.hosts:
        host.ovs.vsctl("set", "port", BOND, "other_config:lacp-time=fast")
        bed.physical.aggregate(host.label, bed.cards)
    for host in bed.hosts:
        uses(host, *bed.cards)


def in_use(host: Host) -> set[str]:
    """Return the cards that the agent last said to use."""
    log = (host.dir / "netplugin.log").read_text()
    said = [line for line in log.splitlines() if 'msg="uplink cards in use changed"' in line]
    return {card for card in CARDS if card in said[-1]} if said else set()


def uses(host: Host, *cards: str) -> None:
    """Wait until the agent of a host uses just these cards."""
    eventually(lambda: in_use(host) == set(cards), f"{host.label} uses {cards}")
