"""The number of files and connections that a daemon may have open.

The soft limit is 1024 where a service manager does not set another; connections of others could
use that up. The daemon raises it to the hard limit, which is the administrator's.
"""

import logging
import resource

from core.logs import fields

log = logging.getLogger(__name__)


def raise_open_files_limit() -> int:
    """Raise the soft limit of open files to the hard one; return the limit in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as exc:  # an unlimited one may exceed the kernel's own
            log.warning(
                "limit of open files not raised, set LimitNOFILE= of the service",
                extra=fields(error=exc, count=soft),
            )
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
