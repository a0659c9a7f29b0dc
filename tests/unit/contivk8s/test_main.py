"""`contivk8s.main` as a module: its own answers and its requests."""

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contivk8s import main

CONFIG = b'{"cniVersion":"0.4.0","name":"contiv-net","type":"contivk8s"}'
ENV = {
    "CNI_COMMAND": "ADD",
    "CNI_CONTAINERID": "abc123",
    "CNI_NETNS": "/var/run/netns/pod1",
    "CNI_IFNAME": "eth0",
    "CNI_ARGS": "K8S_POD_NAME=a=b;K8S_POD_INFRA_CONTAINER_ID=abc123;IgnoreUnknown=1;",
    "CONTIV_CNI_SOCKET": "/nonexistent/contiv.sock",
}

SOCKET = ENV["CONTIV_CNI_SOCKET"]
INSTALL = "install the contivk8s of the netplugin that listens at"


def call(stdin: bytes = CONFIG, /, **env: str) -> tuple[int, dict[str, Any]]:
    code, out = main.answer(ENV | env, stdin)
    return code, json.loads(out)


@pytest.mark.parametrize("asked", ["0.3.1", "0.4.0", "1.0.0", "0.1.0", "7.7"])
def test_version_is_answered_in_the_version_asked(asked: str) -> None:
    stdin = json.dumps({"cniVersion": asked}).encode()
    code, out = main.answer({"CNI_COMMAND": "VERSION", "CNI_NETNS": "dummy"}, stdin)
    assert code == 0
    assert json.loads(out) == {
        "cniVersion": asked,
        "supportedVersions": ["0.3.1", "0.4.0", "1.0.0", "1.1.0"],
    }


@pytest.mark.parametrize("verb", ["check", "add", "FOO"])
def test_other_verbs_are_refused(verb: str) -> None:
    code, error = call(CNI_COMMAND=verb)
    assert (code, error["code"]) == (1, 4)
    assert error["msg"] == f"Contiv:unknown CNI_COMMAND: {verb}"


def test_no_verb_is_refused() -> None:
    assert call(CNI_COMMAND="")[1]["code"] == 4


@pytest.mark.parametrize("name", ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"])
def test_a_missing_variable_is_named(name: str) -> None:
    code, error = call(CONFIG, **{name: ""})
    assert (code, error["code"], error["details"]) == (1, 4, name)


def test_a_del_needs_no_namespace() -> None:
    assert call(CNI_COMMAND="DEL", CNI_NETNS="")[1]["code"] == 11


@pytest.mark.parametrize(
    ("config", "code"),
    [
        (b'{"cniVersion":"0.1.0"}', 1),
        (b'{"cniVersion":5}', 1),
        (b'{"cniVersion":"0.3.1"', 6),
        (b"not json", 6),
        (b"[]", 6),
        (b"\xff", 6),
        (b'{"a":1} x', 6),
        (b"[" * 100_000, 6),
        (b" " * (1 << 20) + b"{}", 6),
    ],
)
@pytest.mark.parametrize("verb", ["ADD", "DEL"])
def test_a_bad_configuration_has_its_code(config: bytes, code: int, verb: str) -> None:
    assert call(config, CNI_COMMAND=verb)[1]["code"] == code


@pytest.mark.parametrize("verb", ["ADD", "DEL"])
def test_no_agent_is_a_reason_to_try_again(verb: str) -> None:
    code, error = call(CNI_COMMAND=verb)
    assert (code, error["code"], error["cniVersion"]) == (1, 11, "0.4.0")
    assert "/nonexistent/contiv.sock" in error["details"]


@pytest.mark.parametrize("version", ["0.3.1", "0.4.0", "1.0.0", "1.1.0"])
def test_every_error_has_the_version_of_the_configuration(version: str) -> None:
    """The finding of docs/notes/trust.md §19."""
    config = json.dumps({"cniVersion": version}).encode()
    code, error = call(config, CNI_COMMAND="FOO")
    assert (code, error["code"], error["cniVersion"]) == (1, 4, version)


@pytest.mark.parametrize(
    ("verb", "since"), [("CHECK", "0.4.0"), ("GC", "1.1.0"), ("STATUS", "1.1.0")]
)
@pytest.mark.parametrize("version", main.SUPPORTED)
def test_a_version_has_its_verbs(version: str, verb: str, since: str) -> None:
    code, error = call(json.dumps({"cniVersion": version}).encode(), CNI_COMMAND=verb)
    old = main.SUPPORTED.index(version) < main.SUPPORTED.index(since)
    without_agent = 50 if verb == "STATUS" else 11
    assert (code, error["code"]) == (1, 1 if old else without_agent)
    assert not old or error["msg"] == f"Contiv:config version does not allow {verb}"


@pytest.mark.parametrize("verb", ["GC", "STATUS"])
def test_calls_about_no_container_need_no_variable(verb: str) -> None:
    env = {"CNI_COMMAND": verb, "CONTIV_CNI_SOCKET": SOCKET}
    code, out = main.answer(env, b'{"cniVersion":"1.1.0","name":"n"}')
    assert (code, json.loads(out)["code"]) == (1, 50 if verb == "STATUS" else 11)


def test_no_configuration_at_all_is_the_original_s_version() -> None:
    assert call(b"")[1]["cniVersion"] == "0.3.1"


def test_the_socket_is_found() -> None:
    named = (("contiv", (("socket", "/a"),)),)
    assert main.socket_path(named, {"CONTIV_CNI_SOCKET": "/b"}) == "/a"
    assert main.socket_path((("contiv", (("socket", 3),)),), {"CONTIV_CNI_SOCKET": "/b"}) == "/b"
    assert main.socket_path((("contiv", "x"),), {}) == "/run/contiv/contiv-cni.sock"


def test_the_request_has_the_original_s_fields_and_ours() -> None:
    assert json.loads(main.request_body(ENV, CONFIG)) == {
        "K8S_POD_NAME": "a=b",
        "K8S_POD_INFRA_CONTAINER_ID": "abc123",
        "CNI_NETNS": "/var/run/netns/pod1",
        "CNI_IFNAME": "eth0",
        "CNI_CONTAINERID": "abc123",
        "CNI_ARGS": ENV["CNI_ARGS"],
        "netconf": CONFIG.decode(),
    }


def test_arguments_that_are_none_go_to_the_agent_as_they_are() -> None:
    request = json.loads(main.request_body({"CNI_ARGS": "garbage"}, b""))
    assert request == {"CNI_ARGS": "garbage"}


def test_the_reply_is_printed_word_for_word() -> None:
    text = '{\n    "dns": "100%d\u00fc"\n}'
    body = json.dumps({"cni": text})
    assert main.read_reply(f"HTTP/1.1 200 OK\r\nX: y\r\n\r\n{body}".encode(), SOCKET, "") == (
        0,
        text,
    )
    assert main.read_reply(f"HTTP/1.1 500 Bad\r\n\r\n{body}".encode(), SOCKET, "") == (1, text)


@pytest.mark.parametrize(
    ("reply", "code", "msg"),
    [
        (b"", 11, "the agent closed the connection without a reply"),
        (b"HTTP/1.1 200 OK\r\nConte", 11, "the agent closed the connection without a reply"),
        (b"HTTP/1.1 200 OK\r\n\r\n{", 100, "the reply is not one of the agent"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n404 page not found\n", 100, "page not found"),
        (b"HTTP/1.1 200 OK\r\n\r\n{}", 100, "the agent's reply has no CNI result"),
        (b'HTTP/1.1 500 X\r\n\r\n{"errmsg": "Error creating EP"}', 100, "Error creating EP"),
    ],
)
def test_a_broken_reply_is_an_error(reply: bytes, code: int, msg: str) -> None:
    with pytest.raises(main.CniError, match=msg) as caught:
        main.read_reply(reply, SOCKET, "trace 4b")
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("status", "code", "details"),
    [
        (
            "403 Forbidden",
            100,
            "HTTP 403 Forbidden: no: run the plugin as root, or as the user of netplugin",
        ),
        (
            "404 Not Found",
            100,
            f"HTTP 404 Not Found: no: {INSTALL} {SOCKET}",
        ),
        (
            "408 Request Timeout",
            11,
            f"HTTP 408 Request Timeout: no: is {SOCKET} the socket of netplugin?",
        ),
        ("502 Bad Gateway", 11, f"HTTP 502 Bad Gateway: no: is {SOCKET} the socket of netplugin?"),
        ("418 Teapot", 100, f"HTTP 418 Teapot: no: is {SOCKET} the socket of netplugin?"),
    ],
)
def test_a_refusal_names_the_cause_and_the_remedy(status: str, code: int, details: str) -> None:
    """The finding of docs/notes/trust.md §19."""
    with pytest.raises(main.CniError) as caught:
        main.read_reply(f"HTTP/1.1 {status}\r\n\r\nno\n".encode(), SOCKET, "trace 4b")
    assert (caught.value.code, caught.value.details) == (code, details)


def expected(text: str) -> object:
    """Return what Python's own decoder finds. Raises ValueError."""
    return json.loads(text, object_pairs_hook=tuple, parse_int=float, parse_constant=int)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.sampled_from([None, 2]),
)
def test_decoding_is_json_s(value: object, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    if "Infinity" in text:  # no JSON, but for Python
        return
    assert main.decode(text.encode()) == expected(text)
    assert main.decode(b"\r\n " + text.encode() + b"\t") == expected(text)


@given(st.text(alphabet='{}[]":,0123tfnN \\u', max_size=12))
def test_what_json_refuses_is_refused(text: str) -> None:
    try:
        value = expected(text)
    except ValueError:
        with pytest.raises(ValueError, match=r"\w"):
            main.decode(text.encode())
    else:
        assert main.decode(text.encode()) == value


def test_the_public_decoder_does_where_there_is_no_private_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "_json", None)
    assert main.decode(b'{"a":1,"a":[null]}') == (("a", 1.0), ("a", [None]))
    for text in (b"", b"{", b"NaN", b"{} x"):
        with pytest.raises(ValueError, match=r"\w"):
            main.decode(text)


@given(st.text())
def test_encoding_is_json_s(text: str) -> None:
    assert json.loads(main.encode(text)) == text


def test_flags() -> None:
    code, out, _ = main.flags(["-version"])
    assert (code, out.splitlines()[0]) == (0, f"Version: {main.VERSION}")
    assert main.flags(["--version"])[0] == 0
    code, out, err = main.flags(["-bogus"])
    assert (code, out) == (2, "")
    assert err.startswith("flag provided but not defined: -bogus\nUsage of contivk8s:\n")
    assert main.flags(["--help"])[0] == 0
    assert main.flags(["stray"])[0] == 2
