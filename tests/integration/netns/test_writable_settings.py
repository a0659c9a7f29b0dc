"""A directory that is mounted read-only, in a mount namespace of its own, as in a container."""

import subprocess
import sys
from pathlib import Path

from core.errors import HostError
from netplugin.kernel import writable_settings

SCRIPT = """\
set -e
mount --bind "$1" "$1"
mount -o remount,bind,ro,nosuid,noexec "$1"
! touch "$1/early" 2>/dev/null
"$2" -c 'import sys; from pathlib import Path
from netplugin.kernel.writable_settings import make_writable
make_writable(Path(sys.argv[1]))' "$1"
touch "$1/late"
findmnt --noheadings --output OPTIONS "$1"
"""


def test_what_is_read_only_is_mounted_anew_with_its_other_options(tmp_path: Path) -> None:
    command = ["unshare", "--mount", "sh", "-c", SCRIPT, "sh", str(tmp_path), sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    options = done.stdout.strip().split(",")
    assert options[0] == "rw"
    assert {"nosuid", "noexec"} <= set(options)
    # it had no mount outside
    assert {path.name for path in tmp_path.iterdir()} == {"late"}


def test_what_is_writable_stays_as_it_is(tmp_path: Path) -> None:
    """Who has no mount of their own would be refused if they asked for one."""
    writable_settings.make_writable(tmp_path)


def test_who_may_not_is_told_what_it_needs(tmp_path: Path) -> None:
    command = "import sys; from pathlib import Path; from netplugin.kernel import writable_settings"
    command += "; writable_settings.make_writable(Path(sys.argv[1]))"
    script = (
        'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && '
        f'exec capsh --drop=cap_sys_admin -- -c \'exec "$0" -c "{command}" "$1"\' "$2" "$1"'
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", tmp_path, sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert HostError.__name__ in done.stderr
    assert "CAP_SYS_ADMIN" in done.stderr
