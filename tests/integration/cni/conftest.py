"""The calls of this folder are made to the plugin in both languages."""

import pytest

from tests.bed import plugin
from tests.integration.cni import calls


@pytest.fixture(autouse=True, params=["python", "c"])
def which_plugin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `run_plugin` run one of them."""
    monkeypatch.setattr(
        calls, "PLUGIN", plugin.SCRIPT if request.param == "python" else plugin.compiled()
    )
