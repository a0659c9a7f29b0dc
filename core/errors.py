"""The one error tree.

Every failure the project reports is a `ContivError`. The class says what kind of failure it is and
carries its HTTP status and process exit code, so that servers and commands look the codes up. The
text is the first line a user reads: it names the object and, where there is one, the remedy.

v1 REST answers 500 for every object error (docs/original/netmaster-rest.md §1); `http_status`
therefore differs from 500 only where the original's own routes do.
"""

from typing import ClassVar


class ContivError(Exception):
    """Base of all errors that the project raises."""

    http_status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1


class Invalid(ContivError):
    """The request is invalid: bad syntax, bad value, or a reference to a missing object."""


class Malformed(Invalid):
    """The request cannot be read: no JSON, an unknown or ill-formed parameter or header."""


class NotSupported(ContivError):
    """The request asks for something that would be ignored, with another meaning."""

    http_status = 400


class PreconditionFailed(ContivError):
    """A precondition of the request does not hold, or cannot be checked (RFC 9110 §13)."""

    http_status = 412


class NotFound(ContivError):
    """The named object does not exist."""


class Conflict(ContivError):
    """The request conflicts with the current state: exists already, in use, not changeable."""


class QuotaExceeded(ContivError):
    """A tenant has all that it may have of something."""

    http_status = 403


class Exhausted(ContivError):
    """A pool (addresses, VLANs, VNIs, group ids) is exhausted."""


class StoreUnavailable(ContivError):
    """The store cannot be reached or does not answer in time; try again later.

    `outcome_unknown`: the change may or may not have been applied.
    """

    def __init__(self, message: str, *, outcome_unknown: bool = False) -> None:
        super().__init__(message)
        self.outcome_unknown = outcome_unknown


class StoreFull(StoreUnavailable):
    """The store is full and refuses writes until an operator frees space; reads still work."""


class StoreDenied(ContivError):
    """The store denied access: wrong credentials, missing permission. Retrying does not help."""


class SchemaMismatch(ContivError):
    """The store's schema version is not supported by this release. Retrying does not help."""


class TooLarge(ContivError):
    """A request or change exceeds a limit of the project or of the store."""


class FenceLost(ContivError):
    """A fenced commit was refused: the lock has another holder. Nothing was written."""


class StoreRewound(FenceLost):
    """A fenced commit was refused: the store went back to another history. Nothing was written."""


class NotLeader(ContivError):
    """This netmaster is not the leader; nothing was changed. Send the request to the leader."""


class MasterUnavailable(ContivError):
    """A netmaster is unreachable, times out or closes the connection; try another, or later.

    `outcome_unknown`: the request may or may not have been carried out.
    """

    def __init__(self, message: str, *, outcome_unknown: bool = False) -> None:
        super().__init__(message)
        self.outcome_unknown = outcome_unknown


def outcome_is_unknown(error: BaseException) -> bool:
    """Return whether what failed may have been done all the same."""
    return isinstance(error, StoreUnavailable | MasterUnavailable) and error.outcome_unknown


class MasterRefused(ContivError):
    """A netmaster answered with an error that has no more specific class here."""


class AgentUnavailable(ContivError):
    """The agent of a host is not registered, is unreachable or failed a request."""


class OrchestratorUnavailable(ContivError):
    """The Kubernetes API server is unreachable, refuses, or sends an unreadable answer."""


class SwitchUnavailable(ContivError):
    """Open vSwitch (OVSDB or OpenFlow) cannot be reached or does not answer in time."""


class SwitchRefused(ContivError):
    """Open vSwitch refused a request (OpenFlow error, OVSDB constraint)."""


class PeerFailed(ContivError):
    """The BGP peer of a host is unreachable, ends the session or violates the protocol."""


class HostError(ContivError):
    """The host's kernel refused a network operation (netlink, network namespace)."""


class UsageError(ContivError):
    """Invalid command line of a daemon; exits 22 (EINVAL), as the original does."""

    exit_code = 22
