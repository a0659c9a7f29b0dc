"""What an API server says that nobody could mean."""

import json

import pytest

from core.errors import OrchestratorUnavailable
from netplugin.kube import api


@pytest.mark.parametrize(
    "line",
    [
        pytest.param('{"object":' * 100_000, id="nested without end"),
        pytest.param("[]", id="no object"),
        pytest.param('{"type": "ADDED"}', id="of nothing"),
        pytest.param('{"type": "ADDED", "object": {"metadata": {}}}', id="without a version"),
        pytest.param('{"type": 5, "object": {}}', id="of no kind"),
        pytest.param("\xff", id="no JSON"),
    ],
)
def test_a_line_that_makes_no_sense_ends_the_watch(line: str) -> None:
    with pytest.raises(OrchestratorUnavailable, match="url: "), api._request_errors("url"):
        api._event(line.encode("latin-1"))


def test_a_line_that_does() -> None:
    said = {"metadata": {"resourceVersion": "7"}}
    line = json.dumps({"type": "DELETED", "object": said}).encode()
    assert api._event(line) == ("7", api.KubeChange(said, deleted=True))
