"""The one error tree.

Every failure the project reports is a `ContivError`. The class says what kind of failure it is and
carries the codes the outside sees (HTTP status, process exit code), so that the edges look codes up
instead of deciding them. The text is the first line of what a user reads: it names the object and,
where there is one, the remedy.

v1 REST answers 500 for every object error (docs/original/netmaster-rest.md §1); `http_status`
therefore differs from 500 only where the original's own routes do.
"""

from typing import ClassVar


class ContivError(Exception):
    """Base of all errors the project raises on purpose."""

    http_status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1


class Invalid(ContivError):
    """The request is wrong in itself: bad syntax, bad value, a reference that cannot be."""


class NotFound(ContivError):
    """The named object does not exist."""


class Conflict(ContivError):
    """The request clashes with what exists: already there, still in use, not changeable."""


class Exhausted(ContivError):
    """A pool (addresses, VLANs, VNIs, group ids) has nothing left to give."""


class StoreUnavailable(ContivError):
    """The store cannot be reached or does not answer in time; try again later.

    `outcome_unknown` tells a writer that its change may or may not have been applied.
    """

    def __init__(self, message: str, *, outcome_unknown: bool = False) -> None:
        super().__init__(message)
        self.outcome_unknown = outcome_unknown


class StoreFull(StoreUnavailable):
    """The store takes no writes until somebody makes room; nothing was written, reads go on."""


class StoreDenied(ContivError):
    """The store refused us: wrong credentials or missing permission. Retrying does not help."""


class SchemaMismatch(ContivError):
    """The store is of a layout that this release must not touch. Retrying does not help."""


class TooLarge(ContivError):
    """A request or change exceeds a limit of ours or of the store."""


class FenceLost(ContivError):
    """A fenced commit was refused: somebody else holds the lock now. Nothing was written."""


class NotLeader(ContivError):
    """This netmaster does not lead (any more); ask the leader."""


class MasterUnavailable(ContivError):
    """A netmaster cannot be reached, does not answer in time or hangs up; try another, or later.

    `outcome_unknown` tells the asker that its request may or may not have been carried out.
    """

    def __init__(self, message: str, *, outcome_unknown: bool = False) -> None:
        super().__init__(message)
        self.outcome_unknown = outcome_unknown


class MasterRefused(ContivError):
    """A netmaster answered with an error that no other class of this tree says better."""


class AgentUnavailable(ContivError):
    """The agent of a host is not registered, cannot be reached or does not do what it is asked."""


class OrchestratorUnavailable(ContivError):
    """The API server of Kubernetes cannot be reached, refuses, or says what cannot be read."""


class SwitchUnavailable(ContivError):
    """Open vSwitch (OVSDB or OpenFlow) cannot be reached or does not answer in time."""


class SwitchRefused(ContivError):
    """Open vSwitch refused a request (OpenFlow error, OVSDB constraint)."""


class PeerFailed(ContivError):
    """The BGP peer of a host cannot be reached, ends the session or breaks its rules."""


class HostError(ContivError):
    """The host's kernel refused a network operation (netlink, network namespace)."""


class UsageError(ContivError):
    """A daemon's command line is wrong; the original exits 22 (EINVAL) then."""

    exit_code = 22
