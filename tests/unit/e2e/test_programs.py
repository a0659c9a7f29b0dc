"""What the test cluster tells Kubernetes' programs, for releases that are not on this machine.

The words for 1.36 and containerd 2.1 are those that a cluster of 1.36.2 with containerd 2.1.9 was
brought up with.
"""

from pathlib import Path

import pytest

from tests.e2e.node import make_cgroup, remove_cgroup
from tests.e2e.programs import Family, Machine, Plane, Version, containerd_file, version_in

FIRST, NOW = Version(1, 20), Version(1, 36)
CONFIG = Path("/d/kubeconfig")


def plane(version: Version, family: Family = Family.V4) -> Plane:
    return Plane(version, "10.88.0.1", Path("/d"), family)


def machine(version: Version, *addresses: str) -> Machine:
    return Machine(version, "n1", addresses or ("10.88.0.11",), CONFIG, "e2e-n1")


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("Kubernetes v1.20.2", (1, 20)),
        ("Kubernetes v1.36.2-k3s1\n", (1, 36)),
        ("containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3", (1, 6)),
        ("containerd github.com/containerd/containerd/v2 2.1.9+unknown ", (2, 1)),
        ('{1 20 v1.20.2 faecb196 clean 2021-01-13T13:28:09Z go1.15.5 gc "linux/amd64"}', (1, 20)),
    ],
)
def test_versions_as_the_programs_say_them(said: str, version: tuple[int, int]) -> None:
    assert version_in(said) == version


def test_what_says_no_version_is_told() -> None:
    with pytest.raises(ValueError, match="flag provided but not defined"):
        version_in("flag provided but not defined: -version")


@pytest.mark.parametrize(("minor", "asked"), [(20, True), (23, True), (24, False), (36, False)])
def test_the_port_without_tls_is_shut_while_there_is_a_flag_for_it(minor: int, asked: bool) -> None:
    told = plane(Version(1, minor))
    for words in (told.scheduler(), told.controller_manager()):
        assert ("--port=0" in words) is asked


@pytest.mark.parametrize(("minor", "asked"), [(20, True), (26, True), (27, False), (36, False)])
def test_the_runtime_is_a_flag_until_it_is_in_the_file(minor: int, asked: bool) -> None:
    words = machine(Version(1, minor)).kubelet(Path("/k"))
    socket = "unix:///run/containerd/containerd.sock"
    assert ("--container-runtime=remote" in words) is asked
    assert (f"--container-runtime-endpoint={socket}" in words) is asked
    named = machine(Version(1, minor)).kubelet_file().get("containerRuntimeEndpoint")
    assert named == (None if asked else socket)


def test_no_release_gets_a_flag_that_1_36_does_not_know() -> None:
    """Each of these ended before: the server would not start."""
    words = [
        *plane(NOW, Family.DUAL).api_server(),
        *plane(NOW, Family.DUAL).controller_manager(),
        *plane(NOW).scheduler(),
        *machine(NOW, "10.88.0.11", "fd00:88::11").kubelet(Path("/k")),
        *machine(NOW).proxy("nftables"),
    ]
    names = {word.partition("=")[0] for word in words}
    gone = {"--insecure-port", "--port", "--container-runtime", "--feature-gates"}
    assert not names & gone
    assert "--container-runtime-endpoint" not in names, "deprecated: it is in the file"


def test_kubelets_file_has_what_its_release_knows() -> None:
    """A release refuses a file with a field of a later one."""
    first, before, now = (machine(one).kubelet_file() for one in (FIRST, Version(1, 30), NOW))
    assert set(now) - set(first) == {"containerRuntimeEndpoint", "failCgroupV1"}
    assert set(before) - set(first) == {"containerRuntimeEndpoint"}
    assert now["failCgroupV1"] is False, "1.35 ends at once on cgroups of version 1 otherwise"
    assert now["address"] == "10.88.0.11"
    assert now["cgroupRoot"] == "/e2e-n1"


def test_two_families_are_a_feature_to_ask_for_before_1_21() -> None:
    gate = "--feature-gates=IPv6DualStack=true"
    both = ("10.88.0.11", "fd00:88::11")
    for version, asked in ((FIRST, True), (Version(1, 21), False), (NOW, False)):
        server = plane(version, Family.DUAL)
        kubelet = machine(version, *both).kubelet(Path("/k"))
        assert "--node-ip=10.88.0.11,fd00:88::11" in kubelet
        assert "--service-cluster-ip-range=10.96.0.0/16,fd00:96::/112" in server.api_server()
        for words in (
            server.api_server(),
            server.controller_manager(),
            kubelet,
            machine(version, *both).proxy("iptables"),
        ):
            assert (gate in words) is asked
    assert gate not in plane(FIRST).api_server()
    assert "--service-cluster-ip-range=10.96.0.0/16" in plane(FIRST).api_server()


@pytest.mark.parametrize(
    ("addresses", "ranges", "dns"),
    [
        (("fd00:88::11",), "fd00:96::/112", "fd00:96::a"),
        (("fd00:88::11", "10.88.0.11"), "fd00:96::/112,10.96.0.0/16", "fd00:96::a"),
    ],
)
def test_the_first_of_the_families_is_everywhere_first(
    addresses: tuple[str, ...], ranges: str, dns: str
) -> None:
    node = machine(NOW, *addresses)
    assert f"--node-ip={','.join(addresses)}" in node.kubelet(Path("/k"))
    assert (node.kubelet_file()["address"], node.kubelet_file()["clusterDNS"]) == (
        addresses[0],
        [dns],
    )
    words = plane(NOW, node.family).api_server()
    assert f"--service-cluster-ip-range={ranges}" in words


def test_containerds_file_is_of_its_version() -> None:
    pause = "local.test/pause:1"
    old, new = (containerd_file(Version(major, 1), pause) for major in (1, 2))
    assert old.startswith("version = 2\n")
    assert f'sandbox_image = "{pause}"' in old
    assert 'bin_dir = "/opt/cni/bin"' in old
    assert new.startswith("version = 3\n")
    assert f'pinned_images]\n  sandbox = "{pause}"' in new
    assert 'bin_dirs = ["/opt/cni/bin"]' in new
    assert 'ip_pref = "cni"' in old
    assert 'ip_pref = "cni"' in new


def test_cgroups_of_version_1_get_what_a_process_needs(tmp_path: Path) -> None:
    for tree in ("cpuset", "memory"):
        (tmp_path / tree).mkdir()
    for setting, value in (("cpus", "0-1"), ("mems", "0")):
        (tmp_path / "cpuset" / f"cpuset.{setting}").write_text(value)
    make_cgroup("e2e-n1", tmp_path)
    new = tmp_path / "cpuset" / "e2e-n1"
    assert [(new / f"cpuset.{one}").read_text() for one in ("cpus", "mems")] == ["0-1", "0"]
    assert (tmp_path / "memory" / "e2e-n1").is_dir()


def test_cgroups_of_version_2_are_one_tree(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu memory pids")
    (tmp_path / "system.slice").mkdir()
    make_cgroup("e2e-n1", tmp_path)
    assert not (tmp_path / "system.slice" / "e2e-n1").exists()
    (tmp_path / "e2e-n1" / "pod1" / "container").mkdir(parents=True)
    remove_cgroup("e2e-n1", tmp_path)
    assert not (tmp_path / "e2e-n1").exists()
    assert (tmp_path / "system.slice").is_dir()
