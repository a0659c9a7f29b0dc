"""What the API server said last, on disk."""

import logging
from pathlib import Path
from typing import Any

import pytest

from core.errors import HostError
from netplugin.kube import cache
from netplugin.kube.cache import Cached, KubeCache


@pytest.fixture
def kept(tmp_path: Path) -> KubeCache:
    return KubeCache(tmp_path / "kubernetes")


def file(tmp_path: Path) -> Path:
    return tmp_path / "kubernetes" / "services.jsonl"


def test_what_was_saved_is_there(kept: KubeCache, tmp_path: Path) -> None:
    assert kept.load("services") is None
    kept.save("services", "7", [b'{"a": 1}', b'{"b": 2}'])
    assert kept.load("services") == Cached("7", ({"a": 1}, {"b": 2}))
    assert kept.load("pods") is None
    kept.save("services", "8", [])
    assert kept.load("services") == Cached("8", ())
    assert file(tmp_path).stat().st_mode & 0o777 == 0o600
    assert file(tmp_path).parent.stat().st_mode & 0o777 == 0o700
    kept.remove("services")
    kept.remove("services")
    assert kept.load("services") is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x",
        b"[]\n",
        b'{"format": 2, "version": "1"}\n{"count": 0}\n',
        b'{"format": 1, "version": 1}\n{"count": 0}\n',
        b'{"format": 1, "version": "1"}\n',
        b'{"format": 1, "version": "1"}\n{"a": 1}\n',
        b'{"format": 1, "version": "1"}\n{"a": 1}\n{"count": 2}\n',
        b'{"format": 1, "version": "1"}\n1\n{"count": 1}\n',
        b'{"format": 1, "version": "1"}\n{"a"',
        b"\xff",
    ],
)
def test_what_cannot_be_used_counts_as_absent(
    kept: KubeCache, tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    kept.save("services", "7", [])
    file(tmp_path).write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert kept.load("services") is None
    assert "Kubernetes cache not usable" in caplog.text


def test_too_much_is_not_kept(
    kept: KubeCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.save("services", "7", [b'{"a": 1}'])
    monkeypatch.setattr(cache, "LARGEST", 20)
    with pytest.raises(HostError, match="too many"):
        kept.save("services", "8", [b'{"a": 1}'] * 5)
    assert kept.load("services") is None
    assert list(file(tmp_path).parent.iterdir()) == []


def test_a_write_that_fails_leaves_what_was_there(
    kept: KubeCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.save("services", "7", [])

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(KubeCache, "_write", staticmethod(full))
    with pytest.raises(HostError, match="No space left"):
        kept.save("services", "8", [])
    assert kept.load("services") == Cached("7", ())
