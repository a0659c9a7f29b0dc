"""What tests of platforms share."""

import re
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parents[3] / "docs" / "platforms.md"


def rules(firewall: str) -> str:
    """Return the block of a firewall's rules, each in one line."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (block,) = (block for block in blocks if block.startswith(f"{firewall} "))
    return str(block)
