"""deploy/quadlets, docs/installation.md's commands and the manifests give containers the same."""

import re
from pathlib import Path
from typing import Final

import pytest
import yaml

ROOT: Final = Path(__file__).parents[3]
FILES: Final = ROOT / "deploy" / "quadlets"
PAGE: Final = (ROOT / "docs" / "installation.md").read_text()
MANIFESTS: Final = {
    "netplugin": "base/netplugin.yaml",
    "openvswitch": "openvswitch/openvswitch.yaml",
}


def values(name: str, key: str) -> list[str]:
    """Return what a quadlet file sets."""
    text = (FILES / f"{name}.container").read_text()
    return re.findall(rf"^{key}=(.*)$", text, re.MULTILINE)


def command(name: str) -> str:
    """Return the command of the page that runs a container without quadlets."""
    found = re.search(rf"^docker run -d --name {name} (?:.*\\\n)*.*$", PAGE, re.MULTILINE)
    assert found is not None
    return found[0]


@pytest.mark.parametrize("name", ["netmaster", "netplugin", "openvswitch"])
def test_the_page_s_command_is_that_of_the_quadlet(name: str) -> None:
    said = command(name)
    added = " ".join(values(name, "AddCapability")).split()
    assert re.findall(r"--cap-add (\S+)", said) == added
    assert re.findall(r" -v (\S+)", said) == values(name, "Volume")
    assert re.findall(r"--env-file (\S+)", said) == values(name, "EnvironmentFile")
    assert ("--read-only" in said) == (values(name, "ReadOnly") == ["true"])
    assert ("no-new-privileges" in said) == (values(name, "NoNewPrivileges") == ["true"])
    assert "--cap-drop ALL" in said
    assert values(name, "DropCapability") == ["ALL"]
    assert values(name, "Image")[0].removeprefix("docker.io/") in said


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_quadlet_gives_no_more_than_the_manifests(name: str) -> None:
    manifest = ROOT / "deploy" / "kubernetes" / MANIFESTS[name]
    (container,) = [
        one
        for one in yaml.safe_load(manifest.read_text())["spec"]["template"]["spec"]["containers"]
        if one["name"] == name
    ]
    capabilities = container["securityContext"]["capabilities"]
    assert " ".join(values(name, "AddCapability")).split() == capabilities["add"]
