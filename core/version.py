"""The version of this build, for `netctl version`, `--version` and netmaster's `/version`."""

from typing import Final

VERSION: Final = "0.1.0"

GIT_COMMIT: Final = ""
"""Set in the copy that `scripts/install-tree` installs; the original sets it with the linker."""

BUILD_TIME: Final = ""
