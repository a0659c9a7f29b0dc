"""The original's test of gratuitous ARP, step by step: how many announcements there are in rounds.

The original waits 48 seconds after each step; here rounds are played as fast as they are decided.
Its counts are of cycles: `ROUNDS` announcements of one endpoint.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from ofnet.changes import Changes, ObjectKind
from ofnet.packets.announcements import ROUNDS, Announcements
from ofnet.world import Bridge, FwdMode, LocalEndpoint, Uplink, World
from tests.unit.ofnet.worlds import local, with_local, without_local, world

EMPTY = replace(world(), fwd_mode=FwdMode.BRIDGE, uplinks=())
LINKS = tuple(Uplink(ofport=30 + n, mac=f"52:54:00:00:00:0{n}") for n in range(3))
DOWN = tuple(replace(link, up=False) for link in LINKS)
EP5, EP6, EP7 = (
    replace(local(number), group_id=group, group_vlan=100 + group)
    for number, group in ((5, 5), (6, 6), (7, 6))
)


class Story:
    """The bridge's World, and how many cycles there have been."""

    def __init__(self) -> None:
        self.world: World = EMPTY
        self.sent = 0
        self._book = Announcements(Bridge.VLAN, EMPTY)
        self.has_uplinks(*LINKS[:1])

    @property
    def cycles(self) -> float:
        return self.sent / ROUNDS

    def comes(self, endpoint: LocalEndpoint) -> None:
        self._becomes(with_local(self.world, endpoint), endpoint)

    def goes(self, endpoint: LocalEndpoint) -> None:
        self._becomes(without_local(self.world, endpoint.key), endpoint)

    def launches(self, group: int, *members: LocalEndpoint) -> None:
        """Have a group announced, as netmaster requests it."""
        again = self.world.launches.get(group, 0) + 1
        self._becomes(replace(self.world, launches={group: again}), *members)

    def has_uplinks(self, *links: Uplink) -> None:
        self._update(replace(self.world, uplinks=links), Changes.of(ObjectKind.UPLINKS))

    def _becomes(self, after: World, *endpoints: LocalEndpoint) -> None:
        self._update(after, Changes.of(ObjectKind.LOCAL, {endpoint.key for endpoint in endpoints}))

    def _update(self, after: World, changes: Changes) -> None:
        self._book.update(after, changes)
        self.world = after
        self.sent += sum(self._rounds())

    def _rounds(self) -> Iterator[int]:
        while self._book.rounds_left:
            yield len(self._book.take_round())


@pytest.fixture
def story() -> Story:
    """Return the story after its first step: three endpoints of two groups have come."""
    told = Story()
    for endpoint in (EP5, EP6, EP7):
        told.comes(endpoint)
    return told


def test_each_member_arms_its_group(story: Story) -> None:
    assert story.cycles == 4, "the second member has the first announced again"


def test_a_group_is_announced_without_who_left(story: Story) -> None:
    story.goes(EP6)
    assert story.cycles == 4
    story.launches(6, EP7)
    assert story.cycles == 5


def test_links_that_come_and_go(story: Story) -> None:
    """The first to come up has all announced, and no other does."""
    for links, cycles in (
        ((), 4),
        (LINKS, 7),
        ((DOWN[0], *LINKS[1:]), 7),
        (LINKS, 7),
        (DOWN, 7),
        ((*DOWN[:2], LINKS[2]), 10),
        (LINKS, 10),
        ((), 10),
        (LINKS[:1], 13),
        (DOWN[:1], 13),
        (LINKS[:1], 16),
    ):
        story.has_uplinks(*links)
        assert story.cycles == cycles, links
