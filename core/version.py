"""What build this is: shown by `netctl version`, by `--version` and by netmaster's `/version`."""

from typing import Final

VERSION: Final = "0.1.0"

GIT_COMMIT: Final = ""
"""Set by whoever builds from a checkout; the original sets it with the linker."""

BUILD_TIME: Final = ""
