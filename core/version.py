"""The version of this build, for `netctl version`, `--version` and netmaster's `/version`.

The only place of the version: packages and images read it here, and `tests/unit/test_versions.py`
compares what must repeat it, the changelog, and the tag `v<version>` of a release.
"""

from typing import Final

VERSION: Final = "0.2.0"

GIT_COMMIT: Final = ""
"""Set in the copy that `scripts/install-tree` installs; the original sets it with the linker."""

BUILD_TIME: Final = ""
