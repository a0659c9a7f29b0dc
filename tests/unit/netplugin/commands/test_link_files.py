"""Network managers are told of every link that the agent makes."""

from configparser import ConfigParser
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from netplugin.commands import cni_files
from netplugin.commands.link_files import FILES
from netplugin.world.bridges import port_names

OURS = (
    *(port_names.switch_name(number) for number in (1, 65532)),
    *(port_names.access_name(1), port_names.container_name(7), port_names.ROUTER_PORT),
    *(*port_names.HOST_LINKS, port_names.name_port(1), "contivh1", "contivVxlanBridge"),
)
NETWORK_MANAGER, NETWORK, LINK, NETWORKD, UDEV = FILES


def setting(path: Path, section: str, name: str) -> str:
    parser = ConfigParser(strict=True, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(FILES[path])
    return parser[section][name]


@pytest.mark.parametrize("link", OURS)
def test_every_link_is_left_alone(link: str) -> None:
    names = setting(NETWORK_MANAGER, "keyfile", "unmanaged-devices+").split(";")
    in_udev = FILES[UDEV].partition('KERNEL=="')[2].partition('"')[0].split("|")
    for patterns in (
        [name.removeprefix("interface-name:") for name in names],
        setting(NETWORK, "Match", "Name").split(),
        setting(LINK, "Match", "OriginalName").split(),
        in_udev,
    ):
        assert any(fnmatchcase(link, pattern) for pattern in patterns)
        assert not any(fnmatchcase("eth0", pattern) for pattern in patterns)
        assert not any(fnmatchcase("veth1234", pattern) for pattern in patterns)


def test_they_are_written_and_removed_again(tmp_path: Path) -> None:
    etc = tmp_path / "etc"
    words = ["--bin-dir", str(tmp_path / "bin"), "--conf-dir", str(tmp_path / "net.d")]
    assert cni_files.run(["install-cni", *words]) == 0
    assert not etc.exists()
    assert cni_files.run(["install-cni", *words, "--etc", str(etc)]) == 0
    for path, text in FILES.items():
        assert (etc / path).read_text() == text
        assert (etc / path).stat().st_mode & 0o777 == 0o644
    assert cni_files.run(["remove-cni", *words, "--etc", str(etc)]) == 0
    assert [path for path in etc.rglob("*") if path.is_file()] == []
