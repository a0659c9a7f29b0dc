"""The `netctl` fixture: command lines against a netmaster in memory."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.netctl.master import MemoryMaster, Netctl


@pytest.fixture
def netctl(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Netctl:
    master = MemoryMaster()
    master.add("tenants", {"key": "default", "tenantName": "default", "link-sets": {}})

    def client(_url: str, **_options: Any) -> MemoryMaster:
        return master

    monkeypatch.setattr("contivmodel.client_sync.RestClient", client)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NETMASTER", raising=False)
    monkeypatch.delenv("INSECURE", raising=False)
    return Netctl(master, capsys)
