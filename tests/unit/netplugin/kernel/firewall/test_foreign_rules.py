"""What the kernel does not say of its tables is a fault of the host, and nothing worse."""

from pathlib import Path

import pytest

from core.errors import HostError
from netplugin.kernel.firewall import foreign_rules


def test_what_cannot_be_read_is_a_fault_of_the_host(tmp_path: Path) -> None:
    (tmp_path / "route").mkdir()
    with pytest.raises(HostError, match=f"cannot read {tmp_path}/route: Is a directory"):
        foreign_rules.outside_links(4, tmp_path)


def test_a_kernel_without_a_family_has_no_routes_of_it(tmp_path: Path) -> None:
    assert foreign_rules.outside_links(6, tmp_path) == ()
