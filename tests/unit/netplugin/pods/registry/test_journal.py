"""The files of the journal, where no disk is needed."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import HostError
from netplugin.pods.registry.journal import Journal
from netplugin.pods.registry.journal_entry import EntryState
from tests.unit.netplugin.records import journal_entry

ENTRY = journal_entry()


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
