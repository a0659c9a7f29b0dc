"""VLANs, VXLAN network identifiers (VNI) and local VLANs: ranges, tags in use, the next free one.

A vlan network has a VLAN. A vxlan network has a VNI and a local VLAN, which stands for the VNI
within a host and comes from a pool of its own (docs/original/netmaster-state.md §3). On an ACI
fabric groups have VLANs of their own, from the networks' pool. Refusals have the original's words.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from core.errors import Conflict, Exhausted, Invalid
from core.numbers import bounded
from netmaster.ipam.spans import FreeSpans
from state.derive import number_list
from state.records import Encap, NetworkRecord

VLAN_CEILING: Final = 4095
VXLAN_CEILING: Final = 65535
VXLAN_SPREAD: Final = 16000
LAST_VLAN: Final = 4094
"""VLAN 4095 is reserved; a range may name it, no network gets it."""

UINT64: Final = 1 << 64
_GREATEST: Final = 10**20 - 1
"""Of a number that is read; what is beyond 64 bits is refused where it is checked."""


@dataclass(frozen=True, slots=True)
class TagRange:
    """The tags low..high."""

    low: int
    high: int

    def covers(self, tags: Iterable[int]) -> bool:
        """Return whether every tag is in the range."""
        return all(self.low <= tag <= self.high for tag in tags)


@dataclass(frozen=True, slots=True)
class Segment:
    """The tags of one network: on the host's bridge, and between hosts (0 for a vlan network)."""

    pkt_tag: int
    ext_pkt_tag: int


def parse_range(text: str) -> TagRange:
    """Return the range `low-high` unchecked; Invalid for text of another form."""
    first, dash, last = text.partition("-")
    low, high = bounded(first, 0, _GREATEST), bounded(last, 0, _GREATEST)
    if not dash or low is None or high is None:
        raise Invalid(f"invalid tags {text[:80]}, correct '10-50,70-100'")
    return TagRange(low=low, high=high)


def parse_vlans(text: str) -> TagRange:
    """Return a range of VLANs; Invalid for other text."""
    return _within(text, VLAN_CEILING)


def parse_vxlans(text: str) -> TagRange:
    """Return a range of VNIs; Invalid for other text."""
    tags = _within(text, VXLAN_CEILING)
    if tags.high - tags.low > VXLAN_SPREAD:
        raise Invalid(f"does not allow vxlan range to exceed {VXLAN_SPREAD} range {text}")
    return tags


class Segments:
    """The tags in use, and those still free within the configured ranges.

    Without ranges (there is no global object) nothing is free.
    """

    # Tags in use are kept apart from the free ones: the ranges may change while networks outside
    # the new ranges exist, and their tags must neither be allocated nor become free by it.

    def __init__(self) -> None:
        self.vlans: set[int] = set()
        self.vxlans: set[int] = set()
        self._vxlan_low = 1
        self._free_vlans = FreeSpans(1, 0)
        self._free_vxlans = FreeSpans(1, 0)
        self._free_locals = FreeSpans(1, LAST_VLAN)

    @property
    def vlans_text(self) -> str:
        """Return the VLANs in use as `1, 5-9`."""
        return number_list(self.vlans)

    @property
    def vxlans_start(self) -> int:
        """Return the number before the first VNI that is configured."""
        return self._vxlan_low - 1

    @property
    def vxlans_text(self) -> str:
        """Return the VNIs in use as `1, 5-9`."""
        return number_list(self.vxlans)

    def configure(self, vlans: TagRange | None, vxlans: TagRange | None) -> None:
        """Set the ranges; tags in use stay in use, inside the new ranges or not."""
        self._free_vlans = _free(vlans, self.vlans, LAST_VLAN)
        self._free_vxlans = _free(vxlans, self.vxlans, VXLAN_CEILING)
        self._vxlan_low = vxlans.low if vxlans else 1

    def take(self, network: NetworkRecord) -> None:
        """Mark a network's tags as used."""
        if network.encap is Encap.VLAN:
            self.take_vlan(network.pkt_tag)
        else:
            self.vxlans.add(network.ext_pkt_tag)
            self._free_vxlans.take(network.ext_pkt_tag)
            self._free_locals.take(network.pkt_tag)

    def release(self, network: NetworkRecord) -> None:
        """Mark a network's tags as free."""
        if network.encap is Encap.VLAN:
            self.release_vlan(network.pkt_tag)
        else:
            self.vxlans.discard(network.ext_pkt_tag)
            self._free_vxlans.release(network.ext_pkt_tag)
            self._free_locals.release(network.pkt_tag)

    def take_vlan(self, vlan: int) -> None:
        """Mark a VLAN as used, by a network or by a group on an ACI fabric."""
        self.vlans.add(vlan)
        self._free_vlans.take(vlan)

    def release_vlan(self, vlan: int) -> None:
        """Mark a VLAN as free."""
        self.vlans.discard(vlan)
        self._free_vlans.release(vlan)

    def choose(self, encap: Encap, requested: int) -> Segment:
        """Return the tags for a new network; `requested` 0 means the lowest free."""
        if encap is Encap.VLAN:
            return Segment(pkt_tag=self._choose_vlan(requested), ext_pkt_tag=0)
        vni = self._choose_vxlan(requested)
        local = self._free_locals.lowest()
        if local is None:
            raise Exhausted("no local vlans available")
        return Segment(pkt_tag=local, ext_pkt_tag=vni)

    def _choose_vlan(self, requested: int) -> int:
        if requested:
            if requested not in self._free_vlans:
                # The original prints the tag as unsigned, so a negative one reads as 2**64 less.
                raise Conflict(f"requested vlan not available - vlan:{requested % UINT64}")
            return requested
        lowest = self._free_vlans.lowest()
        if lowest is None:
            raise Exhausted("no vlans available")
        return lowest

    def _choose_vxlan(self, requested: int) -> int:
        if requested:
            if 0 < requested < self._vxlan_low:
                raise Conflict("requested vxlan is out of range")
            if requested not in self._free_vxlans:
                raise Conflict("requested vxlan not available")
            return requested
        lowest = self._free_vxlans.lowest()
        if lowest is None:
            raise Exhausted("no vxlans available")
        return lowest


def _within(text: str, ceiling: int) -> TagRange:
    tags = parse_range(text)
    if tags.low > tags.high:
        raise Invalid(f"invalid range {text}, min is greater than max")
    if tags.low < 1:
        raise Invalid(f"invalid range {text}, values less than 1")
    if tags.high > ceiling:
        # The original says vlan here for VNIs, too.
        raise Invalid(f"invalid range {text}, vlan values exceed {ceiling} max allowed")
    return tags


def _free(tags: TagRange | None, used: Iterable[int], ceiling: int) -> FreeSpans:
    if tags is None:
        return FreeSpans(1, 0)
    free = FreeSpans(tags.low, min(tags.high, ceiling))
    for tag in used:
        free.take(tag)
    return free
