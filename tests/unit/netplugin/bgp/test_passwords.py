"""The file with the passwords of BGP peers."""

from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest

from core.errors import PeerFailed
from netplugin.bgp.passwords import PasswordFile

PEER, OTHER = IPv4Address("50.1.1.2"), IPv4Address("50.1.1.9")


def written(directory: Path, content: bytes, *, mode: int = 0o600) -> PasswordFile:
    path = directory / "passwords"
    path.write_bytes(content)
    path.chmod(mode)
    return PasswordFile(path)


def test_without_a_file_no_peer_has_a_password() -> None:
    assert PasswordFile(None).password(PEER) == b""


def test_each_peer_has_its_own(tmp_path: Path) -> None:
    file = written(tmp_path, b"# of the racks\n\n50.1.1.2\ta secret \n  50.1.1.3 other\n")
    assert file.password(PEER) == b"a secret"
    assert file.password(IPv4Address("50.1.1.3")) == b"other"
    assert file.password(OTHER) == b""


def test_peers_by_ipv6_have_theirs(tmp_path: Path) -> None:
    file = written(tmp_path, b"2001:DB8:50:0::2 six\n50.1.1.2 four\n")
    assert file.password(IPv6Address("2001:db8:50::2")) == b"six"
    assert file.password(PEER) == b"four"


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    file = written(tmp_path, b"50.1.1.2 old\n")
    assert file.password(PEER) == b"old"
    written(tmp_path, b"50.1.1.2 new\n")
    assert file.password(PEER) == b"new"


@pytest.mark.parametrize(
    "content", [b"\n50.1.1.2\n", b"\nsecret 50.1.1.2\n", b"\n50.1.1.2 " + b"x" * 81, b"\n\xff x"]
)
def test_a_malformed_line_is_named_and_not_shown(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(PeerFailed, match=r"passwords: line 2 must be") as found:
        written(tmp_path, content).password(PEER)
    assert "secret" not in str(found.value)


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(PeerFailed, match="chmod it to 600"):
        written(tmp_path, b"50.1.1.2 secret\n", mode=mode).password(PEER)


def test_a_file_that_is_absent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PeerFailed, match="No such file"):
        PasswordFile(tmp_path / "absent").password(PEER)
