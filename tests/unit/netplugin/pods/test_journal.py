"""The text of a journal entry."""

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from core.errors import HostError
from core.ids import EndpointKey, GroupName, NetworkName, TenantName
from netplugin.pods.journal import EntryState, Journal, JournalEntry, parse

ENTRY = JournalEntry(
    key=EndpointKey("n1.default-c1"),
    container_id="c1",
    netns="/run/netns/pod",
    ifname="eth0",
    tenant=TenantName("default"),
    network=NetworkName("n1"),
    group=GroupName("web"),
    port=7,
    bridge="contivVxlanBridge",
    state=EntryState.ADDING,
)


@pytest.mark.parametrize("entry", [ENTRY, replace(ENTRY, group=None, state=EntryState.REMOVING)])
def test_an_entry_reads_as_it_was_written(entry: JournalEntry) -> None:
    assert parse(json.dumps(asdict(entry))) == entry


def test_an_entry_of_an_older_agent_lacks_name_and_addresses() -> None:
    later = (
        *(
            "name",
            "ip_address",
            "ipv6_address",
            "claiming",
            "labels",
            "endpoint_id",
            "network_name",
        ),
        *("attachment_id", "mac_address", "default_route", "rate", "burst"),
        *("receive_rate", "receive_burst"),
    )
    text = {name: value for name, value in asdict(ENTRY).items() if name not in later}
    assert parse(json.dumps(text)) == ENTRY


def test_labels_are_kept() -> None:
    labelled = replace(ENTRY, labels={"app": "web"})
    assert parse(json.dumps(asdict(labelled))) == labelled


def test_members_of_a_newer_agent_are_passed_over() -> None:
    assert parse(json.dumps(asdict(ENTRY) | {"colour": "red"})) == ENTRY


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "EOF while parsing"),
        ("{", "EOF while parsing"),
        ("[" * 100_000, "recursion limit"),
        (json.dumps(asdict(ENTRY) | {"name": "\ud800"}), "hex escape"),
        (json.dumps(asdict(ENTRY) | {"rev": 10**400}), "beyond 64 bits"),
        (json.dumps(asdict(ENTRY)).replace('"rev": 0', '"rev": 1e999'), "without end"),
        ("[]", "not an object"),
        ("{}", "missing"),
        (json.dumps(asdict(ENTRY) | {"port": "7"}), "port of the wrong type"),
        (json.dumps(asdict(ENTRY) | {"key": None}), "key of the wrong type"),
        (json.dumps(asdict(ENTRY) | {"state": "asleep"}), "asleep"),
    ],
)
def test_anything_else_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse(text)


async def test_a_closed_journal_is_an_error_that_was_foreseen() -> None:
    journal = Journal(Path("/nonexistent"))
    journal.close()
    with pytest.raises(HostError, match="closed"):
        await journal.write(ENTRY)


async def test_the_life_of_an_entry_interns_no_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path of pathlib interns its parts when it is parsed."""

    def interned(text: str) -> str:
        raise AssertionError(f"a text is interned: {text}")

    journal = Journal(tmp_path)
    await journal.load()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "intern", interned)
        with pytest.raises(AssertionError, match="interned"):
            _ = (tmp_path / "one" / "more").parts
        await journal.write(ENTRY)
        await journal.stage(replace(ENTRY, state=EntryState.PRESENT))
        await journal.commit(ENTRY.key)
        await journal.write(replace(ENTRY, state=EntryState.REMOVING))
        await journal.remove(ENTRY.key)
    assert await journal.load() == []
    journal.close()
