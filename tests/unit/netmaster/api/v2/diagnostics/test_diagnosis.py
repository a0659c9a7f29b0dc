"""The bundle of `netctl diag`."""

import io
import json
import tarfile

from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from netmaster.api.dispatch import Leader
from netmaster.api.leader.agents import Answers
from netmaster.api.v2.diagnostics.diagnosis import PATH, archive, key_counts
from tests.unit.netmaster.term import context_of, term


def opened(body: bytes) -> dict[str, str]:
    """Return the files of an archive."""
    with tarfile.open(fileobj=io.BytesIO(body)) as tar:
        found = {one.name: tar.extractfile(one) for one in tar.getmembers()}
        return {name: file.read().decode() for name, file in found.items() if file}


def test_an_archive_has_its_files() -> None:
    assert opened(archive({"b/x": "ä", "a": ""})) == {
        "contiv-diagnosis/b/x": "ä",
        "contiv-diagnosis/a": "",
    }


async def test_every_daemon_has_a_directory_and_the_silent_say_why() -> None:
    async with term() as lead:
        context = context_of(lead)
        said = json.dumps({"log.txt": "password=s3cr3t", "../../up": "x"}).encode()
        context.agents.ask_all.return_value = Answers(  # type: ignore[attr-defined]
            {"h1": said, "h3": b"junk"}, {"h2": "host h2: no netplugin is registered"}
        )
        context.agents.ask_masters.return_value = Answers(  # type: ignore[attr-defined]
            {"10.0.0.1:9999": b"{}"}, {"10.0.0.2:9999": "away"}
        )
        context.agents.count.return_value = 1000  # type: ignore[attr-defined]
        reply = await Leader(context).answer(make_mocked_request("GET", PATH))
        assert isinstance(reply, web.Response)
        assert isinstance(reply.body, bytes)
        files = opened(reply.body)
        top = "contiv-diagnosis"
        assert files[f"{top}/hosts/h1/log.txt"] == "password=(hidden)"
        assert files[f"{top}/hosts/h1/_.._up"] == "x"
        assert files[f"{top}/hosts/h2/no-answer.txt"] == "host h2: no netplugin is registered\n"
        assert files[f"{top}/hosts/h3/no-answer.txt"]
        assert files[f"{top}/masters/10.0.0.2:9999/no-answer.txt"] == "away\n"
        assert files[f"{top}/cluster/hosts.json"] == "[]\n"
        assert json.loads(files[f"{top}/cluster/changes.json"]) == []
        (asked,) = context.agents.ask_all.call_args.args  # type: ignore[attr-defined]
        assert int(asked.partition("=")[2]) < 70_000  # a share of the whole


async def test_keys_are_counted_but_those_of_accounts() -> None:
    async with term() as lead:
        await lead.network("n1")
        counts = json.loads(await key_counts(lead.backend))
        assert counts["/contiv.io/state/nets/"] == 1
        assert not any("auth" in prefix for prefix in counts)
