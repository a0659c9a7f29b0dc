"""The errors that carry a code of the CNI specification, and the codes (pure).

Codes below 100 are the specification's, those from 100 on Contiv's. `netplugin.cni.results` has the
codes of all other errors.
"""

from typing import Final

from contivk8s.main import LATEST
from core.errors import Conflict, ContivError, Invalid

INCOMPATIBLE_VERSION: Final = 1
INVALID_ENVIRONMENT: Final = 4
IO_FAILURE: Final = 5
DECODING_FAILURE: Final = 6
INVALID_CONFIG: Final = 7
TRY_AGAIN_LATER: Final = 11
NOT_AVAILABLE: Final = 50
"""STATUS: no ADD can be carried out."""
LIMITED: Final = 51
"""STATUS: no ADD can be carried out, and existing pods may have limited connectivity."""
FAILED: Final = 100
CONFLICT: Final = 101
EXHAUSTED: Final = 102
DIFFERS: Final = 103
"""CHECK: an interface is not as its ADD left it."""


class BadCall(Invalid):
    """An invalid call; `code` is the CNI specification's, `version` the caller's."""

    def __init__(self, code: int, message: str, *, version: str = LATEST) -> None:
        super().__init__(message)
        self.code = code
        self.version = version


class NotReady(ContivError):
    """No ADD can be carried out now; `code` is the answer to STATUS."""

    def __init__(self, message: str, *, code: int = NOT_AVAILABLE) -> None:
        super().__init__(message)
        self.code = code


class InterfaceDiffers(Conflict):
    """An interface is not as its ADD left it; the text names all that differs."""

    code = DIFFERS
