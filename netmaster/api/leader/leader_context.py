"""What handlers of requests get: the request, and the parts of a leader that answer it.

`netmaster.leadership` makes the context of a term, `netmaster.api.dispatch` the request;
`netmaster.api.v1.handlers` and `netmaster.api.v2.handlers` use them.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from aiohttp import web

from daemons.certificates.peers import Role
from netmaster.api.http.access import Access, AccessControl
from netmaster.api.leader.agents import RegisteredAgents
from netmaster.api.leader.conditions_api import ConditionsApi
from netmaster.api.leader.hosts import HostsApi
from netmaster.api.leader.ipam import IpamApi
from netmaster.api.leader.state_text import EndpointTexts
from netmaster.api.leader.status import StatusApi
from netmaster.commits.commit import Committer
from netmaster.hosts.claim_window import ClaimWindow
from netmaster.hosts.cleanups import Cleanups
from netmaster.plan import network_rights, quotas
from netmaster.plan.change_log import ChangeOrigin
from netmaster.plan.endpoints.address_blocks import LONGEST_WITHOUT_REMOVAL
from netmaster.plan.model import Plan
from netmaster.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """A request whose route is known.

    `parameters` are the values of the route's path parameters. `body` reads the body when it is
    called, so that a request that is refused for its path or type is refused without that.
    `access` is what its client may do, None for everything; `query` is what stands behind the
    path's `?`, encoded. `headers` are looked up without regard to case.
    `address` is the client's, as far as it is known.
    """

    body: Callable[[], Awaitable[bytes]]
    content_type: str = ""
    parameters: Mapping[str, str]
    access: Access | None = None
    query: str = ""
    method: str = ""
    path: str = ""
    address: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    incoming: web.BaseRequest | None = None
    """The request itself, for an answer that is sent part by part."""

    @property
    def origin(self) -> ChangeOrigin:
        """Return where a change of this request comes from."""
        if self.access is None:
            return ChangeOrigin(who="", address=self.address)
        who = self.access.who
        return ChangeOrigin(who=str(who) if who else "", address=self.access.origin.address)

    def allowed(self, decide: Callable[[View], Plan]) -> Callable[[View], Plan]:
        """Return a decision within quotas, and what the client may create in its tenants."""
        who = self.access.who if self.access else None
        if who is not None and who.role is Role.OPERATOR:
            decide = network_rights.limited(decide)
        return quotas.limited(decide)


class ObjectChanges(Protocol):
    """What changes REST objects (`netmaster.external.external_effects`)."""

    async def change(self, decide: Callable[[View], Plan]) -> object:
        """Commit a change with its effects on what is outside the store."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderContext:
    """What a leader answers from during one term.

    `effects` commits changes to REST objects with their external effects, `committer` all others;
    `mode` is the cluster's; `now` is the wall clock; `agents` asks the agents of other hosts;
    `access` decides who may do what, None without TLS.
    `new_id` makes random ids; `block_seconds` is for how long a host may use addresses that it
    holds ahead of its pods.
    While `claims` is open addresses are granted to running pods alone.
    """

    committer: Committer
    effects: ObjectChanges
    mode: str
    now: Callable[[], float]
    agents: RegisteredAgents
    cleanups: Cleanups
    hosts: HostsApi
    conditions: ConditionsApi
    ipam: IpamApi
    status: StatusApi
    access: AccessControl | None = None
    claims: ClaimWindow | None = None
    endpoint_texts: EndpointTexts = field(default_factory=EndpointTexts)
    new_id: Callable[[], str] = lambda: ""
    block_seconds: float = LONGEST_WITHOUT_REMOVAL


Handler = Callable[[LeaderContext, ApiRequest], Awaitable[web.StreamResponse]]
"""What answers the requests of a route; raises errors of `core.errors`."""
