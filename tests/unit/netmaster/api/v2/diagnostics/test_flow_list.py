"""Pages of flows that are asked of hosts in shares: the same as if each had sent all it has."""

from collections.abc import Collection
from typing import Any
from unittest.mock import Mock
from urllib.parse import parse_qs, urlsplit

from hypothesis import given
from hypothesis import strategies as st

from netmaster.api.leader.agents import Answers, RegisteredAgents
from netmaster.api.leader.leader_context import ApiRequest
from netmaster.api.v2.diagnostics import flow_list
from netmaster.plan.show.flow_pages import page
from tests.unit.netmaster.flow_answers import record, said


async def nothing() -> bytes:
    return b""


@given(
    st.lists(st.lists(st.integers(0, 59), max_size=60), min_size=1, max_size=6),
    st.integers(1, 70),
)
async def test_a_page_in_shares_is_the_page_of_all(hosts: list[list[int]], limit: int) -> None:
    known = {
        f"h{at}": [record(number, second) for number, second in enumerate(sorted(seconds))][::-1]
        for at, seconds in enumerate(hosts)
    }
    sent = []

    async def ask_all(path: str, only: Collection[str] | None = None, **_: Any) -> Answers:
        most = int(parse_qs(urlsplit(path).query)["limit"][0])
        replies = {
            host: said(*all_[:most]) for host, all_ in known.items() if only is None or host in only
        }
        sent.append(sum(min(most, len(known[host])) for host in replies))
        return Answers(replies, {})

    agents = Mock(spec=RegisteredAgents)
    agents.ask_all = ask_all
    agents.count.return_value = len(hosts)
    request = ApiRequest(body=nothing, parameters={}, query=f"limit={limit}")
    found = await flow_list._page(Mock(agents=agents), request, {}, limit, None)
    whole = page({host: said(*all_) for host, all_ in known.items()}, {}, limit)
    assert found.items == whole.items
    assert found.next == whole.next
    assert len(sent) <= 2
