"""What an API server says that nobody could mean."""

import json

import pytest

from core.errors import OrchestratorUnavailable
from netplugin.kube import api
from netplugin.kube.api_access import KubeAccess
from netplugin.kube.resources import SERVICES


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
    client = api.KubeApi(KubeAccess(servers=("http://192.0.2.1",)))
    errors = client._request_errors("url", 1.0)
    with pytest.raises(OrchestratorUnavailable, match="url: "), errors:
        api._event(SERVICES, line.encode("latin-1"))


def test_a_line_that_does() -> None:
    said = {"metadata": {"resourceVersion": "7"}}
    line = json.dumps({"type": "DELETED", "object": said}).encode()
    assert api._event(SERVICES, line) == api.KubeChange(SERVICES, "7", said, deleted=True)


@pytest.mark.parametrize(("code", "status"), [(410, 410), (None, 0), ("x", 0)])
def test_an_error_has_its_status(code: object, status: int) -> None:
    said = {"kind": "Status", "code": code, "message": "too old resource version"}
    line = json.dumps({"type": "ERROR", "object": said}).encode()
    with pytest.raises(api.KubeRefused, match="services: too old") as refused:
        api._event(SERVICES, line)
    assert refused.value.status == status
