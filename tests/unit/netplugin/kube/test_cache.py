"""What the API server said last, on disk."""

import logging
import sqlite3
from pathlib import Path

import pytest

from core.errors import HostError
from netplugin.kube.cache import FILE, FORMAT, Cached, KubeCache


@pytest.fixture
def kept(tmp_path: Path) -> KubeCache:
    return KubeCache(tmp_path / "kubernetes")


def file(tmp_path: Path) -> Path:
    return tmp_path / "kubernetes" / FILE


def test_what_was_saved_is_there(kept: KubeCache, tmp_path: Path) -> None:
    assert kept.load("services") is None
    kept.save("services", "7", {"a": b'{"a": 1}', "b": b'{"b": 2}'})
    assert kept.load("services") == Cached("7", ({"a": 1}, {"b": 2}))
    assert kept.load("pods") is None
    kept.save("services", "8", {"a": None, "b": b'{"b": 3}', "never": None})
    assert kept.load("services") == Cached("8", ({"b": 3},))
    assert file(tmp_path).stat().st_mode & 0o777 == 0o600
    assert file(tmp_path).parent.stat().st_mode & 0o777 == 0o700
    kept.remove("services")
    kept.remove("services")
    assert kept.load("services") is None
    kept.save("services", "9", {})
    assert kept.load("services") == Cached("9", ())


def damage(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        f"PRAGMA user_version = {FORMAT + 1}",
        "ALTER TABLE resources RENAME COLUMN version TO other",
        "UPDATE objects SET line = '{'",
        "UPDATE objects SET line = '1'",
        "UPDATE objects SET line = x'ff'",
    ],
)
def test_what_cannot_be_used_counts_as_absent(
    kept: KubeCache, tmp_path: Path, statement: str, caplog: pytest.LogCaptureFixture
) -> None:
    kept.save("services", "7", {"a": b"{}"})
    kept.close()
    damage(file(tmp_path), statement)
    with caplog.at_level(logging.WARNING):
        assert kept.load("services") is None
    assert "Kubernetes cache not usable" in caplog.text
    kept.save("services", "8", {"b": b'{"b": 1}'})
    assert kept.load("services") == Cached("8", ({"b": 1},))


def test_a_file_that_is_no_database_counts_as_absent(
    kept: KubeCache, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file(tmp_path).parent.mkdir()
    file(tmp_path).write_bytes(b"not a database, and long enough to be read as one" * 100)
    with caplog.at_level(logging.WARNING):
        assert kept.load("services") is None
    assert "Kubernetes cache not usable" in caplog.text
    kept.save("services", "8", {})
    assert kept.load("services") == Cached("8", ())


def test_too_much_is_not_kept(tmp_path: Path) -> None:
    kept = KubeCache(file(tmp_path).parent, largest=64 * 1024)
    kept.save("services", "7", {"a": b'{"a": 1}'})
    with pytest.raises(HostError, match="full"):
        kept.save("services", "8", {str(one): b'"%s"' % (b"x" * 1000) for one in range(100)})
    assert list(file(tmp_path).parent.iterdir()) == [], "it would lack what changed"
    assert kept.load("services") is None


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    kept = KubeCache(tmp_path / "file")
    with pytest.raises(HostError, match="Kubernetes cache"):
        kept.save("services", "7", {})
