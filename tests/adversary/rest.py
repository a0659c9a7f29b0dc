"""Users and strangers at the masters' REST, over TLS: what they get to see, change or use up."""

import base64
import http.client
import json
import random
import re
import socket
import ssl
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from core.net import tls_trust
from netmaster.api.route_table import ROUTES
from tests.bed.cluster import ADMIN, NETMASTER_PORT, PROGRAMS, Bed
from tests.bed.pods import Pod
from tests.system.conftest import unforeseen
from tests.system.rest import ask

pytestmark = [pytest.mark.system]

Figures = Callable[[str], None]

SEED = 20261125
PASSWORD = "correct horse"
SUBNET = "10.66.6"
"""Of the network of tenant red, whose operators none of the attackers are."""
ALLOWED = frozenset({200, 201, 204})


@dataclass
class AttackedCluster:
    """A cluster with tenants blue and red, a pod of red, and the attackers' contexts."""

    bed: Bed
    victim: Pod
    contexts: dict[str, ssl.SSLContext] = field(default_factory=dict)

    @property
    def marks(self) -> tuple[bytes, ...]:
        """What only an answer about tenant red has."""
        return SUBNET.encode(), self.victim.sandbox.container_id.encode(), b"of-red-alone"

    def send(
        self,
        who: str,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        source: str = "",
    ) -> tuple[int, bytes]:
        """Send a request exactly as it stands; return status and body, 0 if it was cut off."""
        namespace, address = self.bed.fabric.namespace, self.bed.fabric.address

        def connect() -> socket.socket:
            own = (source, 0) if source else None
            return socket.create_connection((address, NETMASTER_PORT), 20, source_address=own)

        with suppress(OSError, http.client.HTTPException):
            raw = namespace.call(connect)
            with self.contexts[who].wrap_socket(raw, server_hostname=address) as sock:
                lines = {"Host": f"{address}:{NETMASTER_PORT}", **(headers or {})}
                if body is not None:
                    lines |= {"Content-Length": str(len(body))}
                    lines.setdefault("Content-Type", "application/json")
                head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
                sock.sendall(f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode() + (body or b""))
                answer = http.client.HTTPResponse(sock, method=method)
                answer.begin()
                return answer.status, answer.read(4_000_000)
        return 0, b""

    def login(self, name: str, password: str = PASSWORD, source: str = "") -> tuple[int, bytes]:
        body = json.dumps({"username": name, "password": password}).encode()
        path = "/api/v1/auth_proxy/login/"
        return self.send("none", "POST", path, body, source=source)


@pytest.fixture(scope="module")
def cluster(bed_dirs: Iterator[Path]) -> Iterator[AttackedCluster]:
    """Run a cluster of one host, with certificates and users."""
    directory = next(bed_dirs)
    directory.mkdir()
    bed = Bed(directory, 1, secure=True).start()
    try:
        for tenant, subnet in (("blue", "10.55.5"), ("red", SUBNET)):
            bed.netctl("tenant", "create", tenant)
            bed.netctl(
                *("net", "create", "-t", tenant, f"--subnet={subnet}.0/24"),
                *(f"--gateway={subnet}.254", "sea"),
            )
            bed.netctl("policy", "create", "-t", tenant, "guard")
            bed.netctl("group", "create", "-t", tenant, "-p", "guard", "sea", "web")
        bed.netctl("tenant", "create", "of-red-alone")
        victim = bed.add_pod(bed.hosts[0], "victim", tenant="red", network="sea", group="web")
        cluster = AttackedCluster(bed, victim)
        assert bed.identities is not None
        identities = bed.identities
        cluster.contexts[ADMIN] = identities.context(ADMIN)
        for role, name, *tenants in (
            ("operator", "joe", "blue"),
            ("operator", "jim"),
            ("reader", "rita"),
            ("agent", "h9"),
            ("operator", "stranger"),
        ):
            addresses = ["192.0.2.9"] if role == "agent" else []
            identities.issue(role, name, *addresses)
            cluster.contexts[name] = identities.context(name)
            if role in {"operator", "reader"} and name != "stranger":
                user(bed, name, role, tenants)
        user(bed, "root", "admin", [])
        cluster.contexts["h1"] = identities.context(bed.hosts[0].label)
        cluster.contexts["none"] = tls_trust.client_context(ca_file=identities.files(ADMIN).ca)
        yield cluster
        assert unforeseen(bed) == []
    finally:
        bed.stop()


def user(bed: Bed, name: str, role: str, tenants: Sequence[str]) -> None:
    words = [str(PROGRAMS / "netmaster"), "set-user", "--name", name, "--role", role]
    words += [word for tenant in tenants for word in ("--tenant", tenant)]
    subprocess.run(
        [*bed.fabric.namespace.enter, *words, *bed.store_flags()],
        input=f"{PASSWORD}\n",
        text=True,
        check=True,
        capture_output=True,
    )


def filled(pattern: str, victim: Pod) -> str:
    """Return a route's path with names of tenant red in it."""
    values = {"key": "red:sea", "endpoint": victim.name, "host": "h1", "tenant": "red"}
    path = re.sub(r"\{(\w+)\}", lambda found: quote(values.get(found[1], "red:sea")), pattern)
    if "tenants" in pattern:
        path = path.replace(quote("red:sea"), "red")
    if "endpoints" in pattern:
        path = path.replace(quote("red:sea"), victim.name)
    return path


def test_every_route_by_every_identity(cluster: AttackedCluster, figures: Figures) -> None:
    """Every route, asked about another tenant's objects by everyone who should not see them."""
    asked, leaks, changed = Counter[str](), [], []
    slow = {"/api/v2/events", "/debug/diagnosis"}
    for route in ROUTES:
        if route.pattern in slow:
            continue
        path = filled(route.pattern, cluster.victim)
        body = None if route.method == "GET" else b'{"tenantName": "red", "key": "red:x"}'
        for who in ("none", "joe", "jim", "stranger", "h9"):
            status, said = cluster.send(who, route.method, path, body)
            asked[who] += 1
            if any(mark in said for mark in cluster.marks):
                leaks.append((who, route.method, path, status))
            if route.method != "GET" and status in ALLOWED:
                changed.append((who, route.method, path, status))
    figures(f"{asked.total()} requests by {len(asked)} identities; {len(leaks)} leaks")
    figures(f"{len(changed)} changes allowed: {sorted({one[2] for one in changed})}")
    assert not leaks
    assert cluster.bed.agents[0].running
    networks = ask(cluster.bed, "GET", "/api/v1/networks/").json()
    assert {one["tenantName"] for one in networks} == {"blue", "red"}


def test_other_spellings_of_paths(cluster: AttackedCluster, figures: Figures) -> None:
    """Case, percent encoding, dots, slashes, NUL, Unicode: to another tenant's objects."""
    dice = random.Random(SEED)
    paths = [
        "/api/v1/networks/red:sea/",
        "/api/v1/tenants/red/",
        "/api/v1/inspect/networks/red:sea/",
    ]
    tricks: list[Callable[[str], str]] = [
        str.upper,
        lambda path: path.replace("red", "%72%65%64"),
        lambda path: path.replace("red", "%2572ed"),
        lambda path: path.replace("/", "//"),
        lambda path: path.replace("red", "blue/../red"),
        lambda path: path.replace("red", "./red"),
        lambda path: path.replace(":", "%3a"),
        lambda path: path.replace("red", "red%00"),
        lambda path: path.replace("red", "blue%00red"),
        lambda path: path.replace("red", "\uff52ed"),
        lambda path: path.replace("/api/", "/x/../api/"),
        lambda path: path + "?key=blue:sea",
        lambda path: path.replace("red:sea", "blue:sea%2f..%2fred:sea"),
        lambda path: path.replace("red", "a" * 5000 + "/../red"),
    ]
    asked, leaks = 0, []
    for _ in range(600):
        path = dice.choice(paths)
        for trick in dice.sample(tricks, dice.choice([1, 1, 2, 3])):
            path = trick(path)
        target = quote(path, safe="/:?=%.&")
        status, said = cluster.send("joe", dice.choice(["GET", "DELETE", "POST"]), target, b"{}")
        asked += 1
        if any(mark in said for mark in cluster.marks):
            leaks.append((target, status))
    figures(f"{asked} requests; {len(leaks)} leaks")
    assert not leaks
    assert len(ask(cluster.bed, "GET", "/api/v1/networks/").json()) == 2


def test_bodies_that_name_another_tenant(cluster: AttackedCluster, figures: Figures) -> None:
    """The path names one's own tenant, the body, a second key or a query another one."""
    own = "/api/v1/networks/blue:evil/"
    claims = [
        '"tenantName": "red"',
        '"tenantName": "blue", "tenantName": "red"',
        '"TenantName": "red", "tenantName": "blue"',
        '"key": "red:evil", "tenantName": "red"',
        '"tenantName": "red\\u0000blue"',
    ]
    rest = '"networkName": "evil", "subnet": "10.9.0.0/24"'
    bodies = [f"{{{claim}, {rest}}}".encode() for claim in claims]
    for body in bodies:
        cluster.send("joe", "POST", own, body)
        cluster.send("joe", "POST", own + "?tenantName=red", body)
        cluster.send("joe", "POST", "/api/v2/networks", body)
    networks = ask(cluster.bed, "GET", "/api/v1/networks/").json()
    made = [one["key"] for one in networks if one["tenantName"] != "blue"]
    figures(f"{3 * len(bodies)} requests; made in another tenant: {len(made) - 1}")
    assert made == ["red:sea"]


def test_tokens_that_nobody_issued(cluster: AttackedCluster, figures: Figures) -> None:
    """Tokens without signature, of other algorithms, with changed claims; forged identities."""
    status, answer = cluster.login("rita")
    assert status == 200, answer
    token = json.loads(answer)["token"]
    head, claims, signature = token.split(".")

    def encoded(data: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(data).encode()).decode().rstrip("=")

    def decoded(part: str) -> Any:
        return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))

    admin = {**decoded(claims), "role": "admin", "sub": "root", "username": "root", "name": "root"}
    forged = [
        f"{encoded({'alg': 'none', 'typ': 'JWT'})}.{encoded(admin)}.",
        f"{encoded({**decoded(head), 'alg': 'HS512'})}.{claims}.{signature}",
        f"{encoded({**decoded(head), 'kid': '/dev/null'})}.{claims}.{signature}",
        f"{encoded({**decoded(head), 'jku': 'https://192.0.2.1/'})}.{claims}.{signature}",
        f"{head}.{encoded(admin)}.{signature}",
        f"{head}.{claims}.{'A' * len(signature)}",
        f"{head}.{claims}",
        token + "x",
        "A" * 100_000,
    ]
    for one in forged:
        for header in ({"X-Auth-Token": one}, {"Authorization": f"Bearer {one}"}):
            status, said = cluster.send("none", "GET", "/api/v1/tenants/", headers=header)
            assert status not in ALLOWED, (one[:60], said[:200])
    for header in (
        {"X-Contiv-Identity": json.dumps({"role": "admin", "name": "root"})},
        {"X-Forwarded-User": "root"},
        {"X-Remote-User": "root"},
    ):
        status, said = cluster.send("none", "GET", "/api/v1/tenants/", headers=header)
        assert status not in ALLOWED, said
    figures(f"{2 * len(forged) + 3} requests, none let in")


def test_parts_of_names_of_others(cluster: AttackedCluster, figures: Figures) -> None:
    """Searches by part: what exists in another tenant looks like what does not exist."""
    container = cluster.victim.sandbox.container_id
    ghosts = ["f" * 64, "nobody", "0123456789abcdef"]
    known = [container, container[:12], container[:1], container[10:20], "victim", "vic", "ict"]
    asked, told = 0, set()
    for pattern in ("/api/v1/inspect/endpoints/{}/", "/api/v2/endpoints/{}/capture?seconds=1"):
        answers = {}
        for name in (*ghosts, *known):
            status, said = cluster.send("joe", "GET", pattern.format(name))
            answers[name] = status, re.sub(rb"\b%s\b" % name.encode(), b"NAME", said)
            asked += 1
        of_ghosts = {answers[name] for name in ghosts}
        assert len(of_ghosts) == 1, of_ghosts
        told |= {name for name in known if answers[name] not in of_ghosts}
    figures(f"{asked} requests; {len(told)} told more than of a name that nobody has")
    assert not told


def test_pages_of_other_sites(cluster: AttackedCluster, figures: Figures) -> None:
    """A web page has an administrator's browser post: forms, plain text, links, rebound names."""
    page = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    forms = [
        ("POST", "/hosts/h1/drain", b"x=1", "application/x-www-form-urlencoded"),
        ("POST", "/ipam/fix", b"", "text/plain"),
        ("POST", "/api/v1/tenants/pwned/", b'{"tenantName": "pwned"}', "text/plain"),
        ("PUT", "/api/v1/tenants/pwned/", b'{"tenantName": "pwned"}', "text/plain"),
        ("DELETE", "/api/v1/networks/red:sea/", b"", "text/plain"),
        ("POST", "/api/v2/tenants", b'{"tenantName": "pwned"}', "application/json"),
    ]
    asked = 0
    for method, path, body, kind in forms:
        for headers in (page, {"Origin": "null"}, {"Sec-Fetch-Site": "same-site"}):
            status, said = cluster.send(
                ADMIN, method, path, body, {**headers, "Content-Type": kind}
            )
            asked += 1
            assert status not in ALLOWED, (method, path, headers, said)
    figures(f"{asked} requests with an administrator's certificate, all refused")
    tenants = {one["tenantName"] for one in ask(cluster.bed, "GET", "/api/v1/tenants/").json()}
    assert "pwned" not in tenants


def test_all_streams_of_one_user(cluster: AttackedCluster, figures: Figures) -> None:
    """One operator from many addresses holds all event streams that it can."""
    address = cluster.bed.fabric.address
    request = f"GET /api/v2/events HTTP/1.1\r\nHost: {address}\r\n\r\n".encode()
    opened = 0
    with ExitStack() as held:

        def stream(who: str, source: str) -> bytes:
            raw = cluster.bed.fabric.namespace.call(
                lambda: socket.create_connection((address, NETMASTER_PORT), 10, (source, 0))
            )
            sock = held.enter_context(
                cluster.contexts[who].wrap_socket(raw, server_hostname=address)
            )
            sock.settimeout(10)
            sock.sendall(request)
            return sock.recv(64)

        for number in range(1, 5):
            extra = f"192.168.77.{200 + number}"
            cluster.bed.fabric.namespace.run(
                ["ip", "address", "replace", f"{extra}/32", "dev", "lo"]
            )
            for _ in range(70):
                with suppress(OSError):
                    opened += stream("joe", extra).startswith(b"HTTP/1.1 200")
        mine = stream(ADMIN, address)
    figures(f"{opened} of 280 streams granted; an administrator's is answered {mine[:12].decode()}")
    assert mine.startswith(b"HTTP/1.1 200"), mine


def test_keys_of_repeated_requests_pushed_out(cluster: AttackedCluster, figures: Figures) -> None:
    """1 100 keyed changes of an operator: an administrator's repeated request is answered again."""
    body = json.dumps({"tenantName": "keyed"}).encode()
    key = {"Idempotency-Key": "of-the-administrator"}
    first = cluster.send(ADMIN, "POST", "/api/v2/tenants", body, key)
    assert first[0] == 201, first
    made = 0
    for number in range(1100):
        own = {"Idempotency-Key": f"k{number}"}
        document = {"tenantName": "blue", "policyName": f"p{number % 7}"}
        status, _ = cluster.send(
            "joe", "POST", "/api/v2/policies", json.dumps(document).encode(), own
        )
        made += status != 0
    again = cluster.send(ADMIN, "POST", "/api/v2/tenants", body, key)
    figures(f"{made} keyed requests; the administrator's is answered {again[0]} again")
    assert again == first


def test_guessers_do_not_lock_an_administrator_out(
    cluster: AttackedCluster, figures: Figures
) -> None:
    """Four addresses guess an administrator's password all the time; he logs in from a fifth."""
    sources = [f"192.168.77.{200 + number}" for number in range(1, 6)]
    for source in sources:
        cluster.bed.fabric.namespace.run(["ip", "address", "replace", f"{source}/32", "dev", "lo"])
    ended, tries = threading.Event(), [0]

    def guess(source: str) -> None:
        while not ended.is_set():
            cluster.login("root", f"wrong {tries[0]}", source)
            tries[0] += 1

    threads = [threading.Thread(target=guess, args=(source,)) for source in sources[:4]]
    for thread in threads:
        thread.start()
    try:
        right, until = [], time.monotonic() + 30
        while time.monotonic() < until:
            right.append(cluster.login("root", source=sources[4])[0])
            time.sleep(2)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    let_in = right.count(200)
    figures(f"{tries[0]} guesses in 30 s; {let_in} of {len(right)} right logins let in")
    assert let_in == len(right)


def test_silent_connections(cluster: AttackedCluster, figures: Figures) -> None:
    """2 500 silent connections and 800 half handshakes from four addresses."""
    address = cluster.bed.fabric.address
    opened = 0
    with ExitStack() as held:
        for number in range(3300):
            source = f"192.168.77.{201 + number % 4}"

            def connect(source: str = source) -> socket.socket:
                return socket.create_connection((address, NETMASTER_PORT), 5, (source, 0))

            with suppress(OSError):
                sock = held.enter_context(cluster.bed.fabric.namespace.call(connect))
                if number % 4 == 0:
                    sock.sendall(b"\x16\x03\x01\x02\x00\x01\x00")
                opened += 1
        began = time.monotonic()
        answers = [cluster.send(ADMIN, "GET", "/api/v1/networks/")[0] for _ in range(20)]
        took = (time.monotonic() - began) / len(answers)
    figures(
        f"{opened} connections; an administrator got {answers.count(200)} of 20, {took:.2f} s each"
    )
    assert answers.count(200) == 20


def test_secrets_in_what_operators_hand_on(cluster: AttackedCluster, figures: Figures) -> None:
    """Passwords, keys and tokens in diagnoses, logs and command lines."""
    status, answer = cluster.login("rita")
    assert status == 200
    token = json.loads(answer)["token"]
    assert cluster.bed.identities is not None
    key = Path(cluster.bed.identities.files(ADMIN).key).read_text().splitlines()[1]
    secrets = [PASSWORD, token, key, "$argon2"]
    seen = "".join(path.read_text(errors="replace") for path in cluster.bed.logs())
    for daemon in (cluster.bed.netmaster, *cluster.bed.agents):
        seen += Path(f"/proc/{daemon.pid}/cmdline").read_text()
    _, diagnosis = cluster.send(ADMIN, "GET", "/api/v2/diagnosis")
    seen += diagnosis.decode("latin-1")
    found = [secret[:8] for secret in secrets if secret in seen]
    figures(f"{len(seen)} characters looked through; {len(found)} secrets found")
    assert not found


@pytest.fixture(scope="module")
def hosts() -> int:
    return 1


@pytest.fixture(scope="module")
def flags() -> Mapping[str, Sequence[str]]:
    return {}
