"""`/ipam/fix`: only what two scans find wrong is repaired."""

from collections import Counter
from collections.abc import Awaitable, Callable

from core import keys
from core.ids import NetworkId
from netmaster.api.leader.ipam import GRACE, IpamApi
from netmaster.reservations import Reservations
from objdb.api import Change, Delete, Put
from state import codec
from state.records import GrantOwner, GrantRecord
from tests.bed.waiting import eventually_async
from tests.unit.netmaster.scene import NOW
from tests.unit.netmaster.term import Term, term

N1 = NetworkId("n1.default")


def stray(address: str) -> Put:
    grant = GrantRecord(owner=GrantOwner.ENDPOINT, owner_id="gone", seq=900, granted_at=NOW)
    return Put(keys.grant(N1, address), codec.encode(grant))


async def foreign(lead: Term, *ops: Put | Delete) -> None:
    """Write as another program, and wait until the leader sees it."""
    await lead.backend.commit([Change((), ops)])

    async def seen() -> bool:
        held = lead.view.addresses[N1].grants.keys()
        there = {op.key: isinstance(op, Put) for op in ops}
        return all((key in map(_key, held)) == wanted for key, wanted in there.items())

    await eventually_async(seen, "the leader has read it")


def _key(address: str) -> str:
    return keys.grant(N1, address)


def ipam_api(lead: Term, sleep: Callable[[float], Awaitable[None]]) -> IpamApi:
    return IpamApi(
        lead.backend,
        lead.committer,
        Counter(),
        reservations=Reservations(),
        now=lambda: NOW,
        sleep=sleep,
    )


async def test_a_finding_of_one_scan_alone_is_not_repaired() -> None:
    waited: list[float] = []

    async def meanwhile(seconds: float) -> None:
        """Mend one of two findings, and make another."""
        waited.append(seconds)
        await foreign(lead, stray("10.1.1.33"), Delete(keys.grant(N1, "10.1.1.31")))

    async with term() as lead:
        await lead.network("n1")
        ipam = ipam_api(lead, meanwhile)
        await foreign(lead, stray("10.1.1.31"), stray("10.1.1.32"))
        answer = await ipam.fix()
        assert [one["address"] for one in answer["fixed"]] == ["10.1.1.32"]
        assert [one["address"] for one in answer["findings"]] == ["10.1.1.33"]
        assert waited == [GRACE]


async def test_without_findings_a_fix_does_not_wait() -> None:
    async def never(_: float) -> None:
        raise AssertionError

    async with term() as lead:
        await lead.network("n1")
        ipam = ipam_api(lead, never)
        assert (await ipam.fix())["fixed"] == []
