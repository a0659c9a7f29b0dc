"""`netplugin.ovsdb.control_socket` on a real ovs-vswitchd."""

from contextlib import suppress

import pytest

from core.errors import SwitchRefused, SwitchUnavailable
from netplugin.bridges.megaflow_purge import PURGE
from netplugin.ovsdb.control_socket import DEFAULT_RUNDIR, ControlSocket, rundir_of
from tests.bed.ovs import OvsHost
from tests.bed.waiting import eventually

pytestmark = pytest.mark.ovs


@pytest.fixture
def control(ovs_module: OvsHost) -> ControlSocket:
    """Give the control socket of a daemon that has written its process id."""
    control = ControlSocket(rundir_of(f"unix:{ovs_module.db_socket}"), limit=2.0)
    _started(control)
    return control


def _started(control: ControlSocket) -> None:
    def is_there() -> bool:
        with suppress(SwitchUnavailable):
            return control.path().exists()
        return False

    eventually(is_there, "ovs-vswitchd has its control socket")


async def test_commands_are_answered_as_to_appctl(
    ovs_module: OvsHost, control: ControlSocket
) -> None:
    # since Open vSwitch 3.5 the answer ends with a line feed
    assert (await control.call("version")).strip() == ovs_module.appctl("version").strip()
    assert "megaflows enabled" in await control.call(PURGE)
    assert await control.call("coverage/show") != ""
    with pytest.raises(SwitchRefused, match="nonsense"):
        await control.call("nonsense")
    with pytest.raises(SwitchRefused, match="requires at least 1 argument"):
        await control.call("fdb/show")


async def test_a_daemon_that_is_away_or_hangs_is_unavailable(
    ovs_module: OvsHost, control: ControlSocket
) -> None:
    ovs_module.vswitchd.pause()
    try:
        with pytest.raises(SwitchUnavailable, match="does not answer"):
            await control.call("version")
    finally:
        ovs_module.vswitchd.resume()
    with pytest.raises(SwitchUnavailable, match="no process id"):
        await ControlSocket(ovs_module.rundir / "nowhere").call("version")


async def test_a_restarted_daemon_is_found(ovs_module: OvsHost, control: ControlSocket) -> None:
    before = control.path()
    ovs_module.vswitchd.restart()
    _started(control)
    assert control.path() != before
    assert "Open vSwitch" in await control.call("version")


def test_a_remote_database_has_the_default_directory() -> None:
    assert rundir_of("tcp:127.0.0.1:6640") == DEFAULT_RUNDIR
