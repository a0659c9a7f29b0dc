"""The requests of the blocking client, and how it reads answers and failures."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from contivmodel.client_sync import Answered, RestClient, _NotSent
from core.errors import MasterRefused, MasterUnavailable
from tests.bed.waiting import WITHIN

BASE = "http://10.0.0.1:9999"


class Peer:
    """The other end of the client's only connection, with its answer already sent."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self.near.settimeout(WITHIN)
        self.dialled: tuple[str, int] | None = None

    def will_answer(self, answer: bytes) -> None:
        self.far.sendall(answer)
        self.far.shutdown(socket.SHUT_WR)

    def dial(self, host: str, port: int, _timeout: float | None) -> socket.socket:
        self.dialled = (host, port)
        return self.near

    def request(self) -> tuple[str, dict[str, str], bytes]:
        """Return the request line, the headers and the body the client sent."""
        head, _, body = self.far.recv(65536).partition(b"\r\n\r\n")
        line, *headers = head.decode().split("\r\n")
        return line, dict(h.split(": ", 1) for h in headers), body


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Peer]:
    peer = Peer()
    monkeypatch.setattr("contivmodel.client_sync._dial", peer.dial)
    with closing(peer.near), closing(peer.far):
        yield peer


def answer(body: str, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def test_reading_keeps_the_order_of_the_server(peer: Peer) -> None:
    peer.will_answer(answer('{"b": 1, "a": 2}'))
    assert list(RestClient(BASE).read("networks", "default:n1")) == ["b", "a"]
    assert peer.request()[0] == "GET /api/v1/networks/default:n1/ HTTP/1.1"
    assert peer.dialled == ("10.0.0.1", 9999)


def test_a_list_in_pages_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = iter(
        ['{"items": [{"key": "a"}], "next": "a"}', '{"items": [{"key": "b"}], "next": ""}']
    )
    peers: list[Peer] = []

    def dial(*_: object) -> socket.socket:
        peers.append(Peer())
        peers[-1].will_answer(answer(next(pages)))
        return peers[-1].near

    monkeypatch.setattr("contivmodel.client_sync._dial", dial)
    found = list(RestClient(BASE).endpoints([("label", "app=web")], limit=1))
    assert [one["key"] for one in found] == ["a", "b"]
    lines = [peer.request()[0] for peer in peers]
    assert lines == [
        "GET /api/v2/endpoints?label=app%3Dweb&limit=1 HTTP/1.1",
        "GET /api/v2/endpoints?label=app%3Dweb&limit=1&after=a HTTP/1.1",
    ]
    for peer in peers:
        peer.near.close()
        peer.far.close()


def test_a_problem_of_api_v2_is_told_in_its_own_words(peer: Peer) -> None:
    peer.will_answer(answer('{"title": "x", "detail": "unknown parameter x"}', "400 Bad Request"))
    with pytest.raises(MasterRefused, match=r"^unknown parameter x$"):
        list(RestClient(BASE).endpoints([("x", "y")]))


def test_paths_of_lists_and_inspection(peer: Peer) -> None:
    peer.will_answer(answer("[]"))
    assert RestClient(BASE).list_all("tenants") == []
    assert peer.request()[0] == "GET /api/v1/tenants/ HTTP/1.1"


def test_inspection_has_its_own_path(peer: Peer) -> None:
    peer.will_answer(answer("{}"))
    RestClient(BASE).inspect("endpoints", "ep1")
    assert peer.request()[0] == "GET /api/v1/inspect/endpoints/ep1/ HTTP/1.1"


def test_a_key_cannot_leave_its_place_in_the_path(peer: Peer) -> None:
    peer.will_answer(answer("{}"))
    RestClient(BASE).read("tenants", "a/../b c?d#e%f")
    assert peer.request()[0] == "GET /api/v1/tenants/a%2F..%2Fb%20c%3Fd%23e%25f/ HTTP/1.1"


def test_writing_posts_json_with_the_token(peer: Peer) -> None:
    peer.will_answer(answer("{}"))
    RestClient(BASE, token="secret").write("tenants", "blue", {"tenantName": "blue"})
    line, headers, body = peer.request()
    assert line == "POST /api/v1/tenants/blue/ HTTP/1.1"
    assert headers["X-Auth-Token"] == "secret"
    assert json.loads(body) == {"tenantName": "blue"}


def test_a_login_is_answered_as_it_came(peer: Peer) -> None:
    peer.will_answer(answer("no", "401 Unauthorized"))
    assert RestClient(BASE).login("joe", "secret") == (401, b"no")
    line, _, body = peer.request()
    assert line == "POST /api/v1/auth_proxy/login/ HTTP/1.1"
    assert json.loads(body) == {"username": "joe", "password": "secret"}


def test_without_a_token_there_is_no_header(peer: Peer) -> None:
    peer.will_answer(answer("{}"))
    RestClient(BASE).version()
    line, headers, _ = peer.request()
    assert line == "GET /version HTTP/1.1"
    assert "X-Auth-Token" not in headers


@pytest.mark.parametrize("base", [BASE + "/proxy", BASE + "/proxy/"])
def test_a_base_path_is_kept_and_its_last_slash_ignored(base: str, peer: Peer) -> None:
    peer.will_answer(answer("{}"))
    RestClient(base).version()
    assert peer.request()[0] == "GET /proxy/version HTTP/1.1"


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        ("404 Not Found", "404 page not found\n", "Page not found!"),
        ("403 Forbidden", "", "Access denied!"),
        ("500 Internal Server Error", "tenant not found\n", "tenant not found\n"),
        ("404 Not Found", '{"detail": "no pod x", "remedy": "list"}', "no pod x (list)"),
        ("403 Forbidden", '{"detail": "joe may not"}', "joe may not"),
        ("404 Not Found", '{"detail": ""}', "Page not found!"),
        ("502 Bad Gateway", "<html>", "502 Bad Gateway"),
        (
            "502 Bad Gateway",
            "Leader a does not answer\n",
            "502 Bad Gateway: Leader a does not answer",
        ),
        ("503 Service Unavailable", "", "503 Service Unavailable"),
        ("301 Moved Permanently", "", "301 Moved Permanently"),
        ("200 OK", "null", "GET /api/v1/tenants/nope/: netmaster's answer is not an object"),
        ("200 OK", "hello", "the answer is not JSON: Expecting value: line 1 column 1 (char 0)"),
    ],
)
def test_refusals_have_the_originals_words(
    status: str, body: str, message: str, peer: Peer
) -> None:
    peer.will_answer(answer(body, status))
    with pytest.raises(MasterRefused) as refused:
        RestClient(BASE).read("tenants", "nope")
    assert str(refused.value) == message


@pytest.mark.parametrize("body", ["null", "{}", "[1]"])
def test_a_list_must_be_one_of_objects(body: str, peer: Peer) -> None:
    peer.will_answer(answer(body))
    with pytest.raises(MasterRefused, match="not a list of objects"):
        RestClient(BASE).list_all("tenants")


PATH = "/api/v2/tenants/blue"
BLUE = {"tenantName": "blue"}


@pytest.mark.parametrize(
    ("answers", "there"),
    [
        ([("GET", 200, BLUE)], BLUE),
        ([("GET", 404, {}), ("PUT", 201, BLUE)], None),
        ([("GET", 404, {}), ("PUT", 412, {}), ("GET", 200, BLUE)], BLUE),
    ],
    ids=["there", "created", "somebody was quicker"],
)
def test_an_object_is_created_unless_it_is_there(
    monkeypatch: pytest.MonkeyPatch,
    answers: list[tuple[str, int, dict[str, str]]],
    there: dict[str, str] | None,
) -> None:
    left = list(answers)

    def send(
        _: RestClient, method: str, path: str, _payload: bytes | None = None, **headers: str
    ) -> Answered:
        wanted, status, body = left.pop(0)
        assert (method, path) == (wanted, PATH)
        assert headers == ({"If-None-Match": "*"} if method == "PUT" else {})
        return Answered(status, "", json.dumps(body).encode(), {})

    monkeypatch.setattr(RestClient, "send", send)
    assert RestClient(BASE).create_if_absent("tenants", "blue", BLUE) == there
    assert left == []


def test_what_cannot_be_created_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([(404, b""), (422, b'{"detail": "no such tenant"}')])

    def send(*_: object, **__: object) -> Answered:
        status, body = next(answers)
        return Answered(status, "", body, {})

    monkeypatch.setattr(RestClient, "send", send)
    with pytest.raises(MasterRefused, match="no such tenant"):
        RestClient(BASE).create_if_absent("tenants", "blue", BLUE)


def test_deleting_what_has_no_path_is_done_already(peer: Peer) -> None:
    peer.will_answer(answer("404 page not found\n", "404 Not Found"))
    RestClient(BASE).delete("tenants", "nope")
    assert peer.request()[0] == "DELETE /api/v1/tenants/nope/ HTTP/1.1"


def test_other_refusals_of_a_delete_are_errors(peer: Peer) -> None:
    peer.will_answer(answer("tenant not found\n", "500 Internal Server Error"))
    with pytest.raises(MasterRefused, match="tenant not found"):
        RestClient(BASE).delete("tenants", "nope")


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"", "EOF"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{", "unexpected EOF"),
        (b"hello\r\n\r\n", 'malformed HTTP response "hello\\r\\n"'),
    ],
)
def test_a_broken_answer_leaves_the_outcome_unknown(sent: bytes, why: str, peer: Peer) -> None:
    peer.will_answer(sent)
    with pytest.raises(MasterUnavailable) as failed:
        RestClient(BASE).write("tenants", "blue", {})
    assert str(failed.value) == f'Post "{BASE}/api/v1/tenants/blue/": {why}'
    assert failed.value.outcome_unknown


@pytest.mark.usefixtures("peer")
def test_silence_is_not_waited_for_without_end() -> None:
    with pytest.raises(MasterUnavailable, match="context deadline exceeded") as failed:
        RestClient(BASE, timeout=0.01).version()
    assert not failed.value.outcome_unknown


@pytest.mark.parametrize(
    ("base", "message"),
    [
        (
            "10.77.0.1:9999",
            'parse "10.77.0.1:9999/version": first path segment in URL cannot contain colon',
        ),
        ("master:9999", 'Get "master:9999/version": unsupported protocol scheme "master"'),
        ("", 'Get "/version": unsupported protocol scheme ""'),
        ("http://:1", 'Get "http://:1/version": http: no Host in request URL'),
        ("http://a:99999", 'parse "http://a:99999/version": Port out of range 0-65535'),
    ],
)
def test_a_bad_url_is_not_dialled(base: str, message: str, peer: Peer) -> None:
    with pytest.raises(MasterUnavailable) as failed:
        RestClient(base).version()
    assert str(failed.value) == message
    assert not failed.value.outcome_unknown
    assert peer.dialled is None


@pytest.mark.parametrize(("base", "port"), [("http://a", 80), ("http://a:5", 5)])
def test_the_port_is_that_of_the_scheme_unless_given(base: str, port: int, peer: Peer) -> None:
    peer.will_answer(answer("{}"))
    RestClient(base).version()
    assert peer.dialled == ("a", port)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (socket.EAI_NONAME, "no such host"),
        (socket.EAI_AGAIN, "temporary failure in name resolution"),
    ],
)
def test_a_name_that_does_not_resolve(
    number: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lookup(*_: object, **__: object) -> None:
        raise socket.gaierror(number, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    with pytest.raises(MasterUnavailable) as failed:
        RestClient("http://nowhere:9999").version()
    message = f'Get "http://nowhere:9999/version": dial tcp: lookup nowhere: {words}'
    assert str(failed.value) == message
    assert not failed.value.outcome_unknown


class Masters:
    """Netmasters by their host; each is refused, breaks off, or answers `{}`."""

    def __init__(self, **states: str) -> None:
        self.states = states
        self.asked: list[str] = []
        self._far: list[socket.socket] = []

    def dial(self, host: str, _port: int, _timeout: float | None) -> socket.socket:
        self.asked.append(host)
        if self.states[host] == "refused":
            raise _NotSent(f"dial tcp {host}:1: connect: connection refused")
        near, far = socket.socketpair()
        if self.states[host] == "answers":
            far.sendall(answer("{}"))
        far.shutdown(socket.SHUT_WR)
        near.settimeout(WITHIN)
        self._far.append(far)
        return near

    def close(self) -> None:
        for far in self._far:
            far.close()


@pytest.fixture
def masters(monkeypatch: pytest.MonkeyPatch) -> Iterator[Masters]:
    with closing(Masters(a="refused", b="answers", c="breaks off")) as found:
        monkeypatch.setattr("contivmodel.client_sync._dial", found.dial)
        # which would be one more connection to those that break off
        monkeypatch.setattr("contivmodel.client_sync._speaks_tls", lambda _: False)
        yield found


def test_another_netmaster_is_asked_when_one_is_gone(masters: Masters) -> None:
    client = RestClient("http://a:1, http://c:1,http://b:1")
    assert client.version() == {}
    client.version()
    assert masters.asked == ["a", "c", "b", "b"]
    masters.states = {"a": "answers", "b": "refused", "c": "refused"}
    client.version()
    assert masters.asked[4:] == ["b", "a"]


def test_a_change_that_may_have_been_made_goes_to_no_other(masters: Masters) -> None:
    client = RestClient("http://a:1,http://c:1,http://b:1")
    with pytest.raises(MasterUnavailable) as failed:
        client.write("tenants", "blue", BLUE)
    assert failed.value.outcome_unknown
    assert masters.asked == ["a", "c"]


def test_a_change_that_was_not_sent_goes_to_another(masters: Masters) -> None:
    RestClient("http://a:1,http://b:1").write("tenants", "blue", BLUE)
    assert masters.asked == ["a", "b"]


def test_all_netmasters_that_are_gone_are_named(masters: Masters) -> None:
    masters.states = {"a": "refused", "b": "refused"}
    with pytest.raises(MasterUnavailable) as failed:
        RestClient("http://a:1,http://b:1").write("tenants", "blue", BLUE)
    assert not failed.value.outcome_unknown
    assert [f"dial tcp {host}:1" in str(failed.value) for host in "ab"] == [True, True]
