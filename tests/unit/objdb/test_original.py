"""The forms in which the original's store can be read."""

import json
from base64 import b64encode

import pytest

from core.errors import Invalid, UsageError
from objdb import original

WANTED = {"/contiv.io/state/nets/a.b": b"{}", "/contiv.io/lock/x": b"10.1.1.1:9999"}


def test_etcds_answer_is_a_tree() -> None:
    nets = {
        "key": "/contiv.io/state/nets",
        "dir": True,
        "nodes": [{"key": "/contiv.io/state/nets/a.b", "value": "{}"}],
    }
    lock = {"key": "/contiv.io/lock/x", "value": "10.1.1.1:9999", "ttl": 20}
    empty = {"key": "/contiv.io/state/eps", "dir": True}
    tree = {"key": "/contiv.io", "dir": True, "nodes": [nets, lock, empty]}
    assert original.parse(json.dumps({"action": "get", "node": tree})) == WANTED


@pytest.mark.parametrize("names", [("Key", "Value"), ("key", "value")], ids=["API", "export"])
def test_consuls_answer_is_a_list(names: tuple[str, str]) -> None:
    key, value = names
    entries = [
        {key: name.lstrip("/"), value: b64encode(content).decode(), "flags": 0}
        for name, content in WANTED.items()
    ]
    assert original.parse(json.dumps(entries)) == WANTED


def test_an_empty_value_of_consul_is_null() -> None:
    assert original.parse('[{"Key": "contiv.io/x", "Value": null}]') == {"/contiv.io/x": b""}


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"keys": {}}', '[{"key": "a", "value": "%"}]'])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="consul kv export"):
        original.parse(text)


@pytest.mark.parametrize("url", ["127.0.0.1:2379", "file:///etc/passwd", "http://"])
def test_an_address_without_http_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="http://host:port"):
        original.read_etcd(url)
