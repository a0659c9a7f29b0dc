"""Which links are strict about the way that packets come by, as the kernel's files say."""

from pathlib import Path

import pytest

from core.errors import HostError
from netplugin.kernel import reverse_paths


def write(settings: Path, **values: str) -> None:
    for link, value in values.items():
        (settings / link).mkdir(exist_ok=True)
        (settings / link / "rp_filter").write_text(f"{value}\n")


@pytest.mark.parametrize(
    ("for_all", "strict"), [("0", ["eth1"]), ("1", ["eth0", "eth1"]), ("2", [])]
)
def test_the_larger_of_both_settings_counts(
    tmp_path: Path, for_all: str, strict: list[str]
) -> None:
    write(tmp_path, all=for_all, eth0="0", eth1="1", eth2="2")
    assert reverse_paths.strict(["eth0", "eth1", "eth2"], tmp_path) == strict


def test_a_link_that_has_gone_drops_nothing(tmp_path: Path) -> None:
    write(tmp_path, all="0")
    assert reverse_paths.strict(["gone"], tmp_path) == []


def test_a_link_is_made_loose_once(tmp_path: Path) -> None:
    write(tmp_path, contivh1="0")
    assert reverse_paths.loosen("contivh1", tmp_path)
    assert not reverse_paths.loosen("contivh1", tmp_path)
    with pytest.raises(HostError, match="link gone"):
        reverse_paths.loosen("gone", tmp_path)
