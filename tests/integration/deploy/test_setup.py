"""scripts/setup: what it installs follows from what the archives of a release have."""

import subprocess
from pathlib import Path
from typing import Final

import pytest

SETUP: Final = Path(__file__).parents[3] / "scripts" / "setup"


def has(*packages: str) -> str:
    """Return a stand-in for apt-cache, in whose archive are these packages alone."""
    known = "|".join(packages)
    return (
        f"apt-cache() {{ case $2 in {known}) echo '  Candidate: 1.0' ;; "
        "*) echo '  Candidate: (none)' ;; esac; "
        # the versions that follow: more than a pipe holds, so that none may stop to read before
        "printf '     1.0 500%.0s\\n' {1..9000}; }\n"
    )


def said(call: str, archive: str) -> subprocess.CompletedProcess[str]:
    """Run one function of the script, with an archive."""
    # all but its last line, which runs the whole; it finds its folder by its own name
    text, last = SETUP.read_text().rstrip().rsplit("\n", 1)
    assert last == "main"
    script = text + "\n" + archive + call
    return subprocess.run(
        ["bash", "-c", script, str(SETUP)], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("archive", "client"),
    [(("docker.io",), "docker.io"), (("docker.io", "docker-cli"), "docker-cli")],
    ids=["Debian 12", "Debian 13"],
)
def test_the_client_of_docker_is_the_package_that_the_release_has(
    archive: tuple[str, ...], client: str
) -> None:
    needed = said('printf "%s\\n" "${needs[@]}"', "").stdout.splitlines()
    (wanted,) = (need.removeprefix("docker=") for need in needed if need.startswith("docker="))
    assert said(f"choose '{wanted}'", has(*archive)).stdout == f"{client}\n"


def test_what_no_archive_has_is_told() -> None:
    assert said("choose 'docker-cli|docker.io' || echo none", has("etcd")).stdout == "none\n"


@pytest.mark.parametrize(
    ("installed", "disabled"), [("ufw firewalld curl", "firewalld.service"), ("ufw curl", "")]
)
def test_a_firewall_that_tests_need_stays_off_at_the_next_boot(
    installed: str, disabled: str
) -> None:
    systemctl = "systemctl() { echo ${!#}; }\n"
    done = said(f"keep_off {installed}", systemctl)
    assert (done.stdout.strip(), done.returncode) == (disabled, 0)
