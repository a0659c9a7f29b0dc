"""What a leader logs of its answers to agents."""

import json
import logging

import pytest

from core.log_lines.extra import extra_of
from tests.unit.netmaster.term import ask, context_of, term

CONFIG = {"Container": "c1", "Host": "h1"}
NAMED = {"TenantName": "default", "NetworkName": "n1", "EndpointID": "c1"}


async def test_an_endpoint_is_logged_by_the_name_that_its_agent_logs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "netmaster.api.v1.handlers")
    create = json.dumps({**NAMED, "EPCommonName": "web-1", "ConfigEP": CONFIG}).encode()
    async with term() as lead:
        await lead.network("n1")
        context = context_of(lead)
        await ask(context, "POST", "/plugin/createEndpoint", create)
        await ask(context, "POST", "/plugin/createEndpoint", create)  # the answer was lost
        (record,) = lead.view.endpoints.values()
        await ask(context, "POST", "/plugin/deleteEndpoint", json.dumps(NAMED).encode())
    lines = [one for one in caplog.records if one.name == "netmaster.api.v1.handlers"]
    assert [one.message for one in lines] == ["endpoint created", "endpoint deleted"]
    for line in lines:
        assert extra_of(line) == {
            "endpoint": record.key,
            "host": "h1",
            "pod": "web-1",
            "address": record.ip_address,
        }
