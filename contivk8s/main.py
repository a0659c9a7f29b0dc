#!/usr/bin/python3 -IS
"""The CNI plugin that a container runtime runs for every pod: a pipe to the agent of this host.

Takes the environment and the network configuration (stdin) of one CNI call; prints the agent's
answer from its unix socket (`netplugin.cni.server`) unchanged. The agent does all the work. This
program only answers VERSION, refuses malformed calls, and reports an agent that does not answer.

This file alone is installed on hosts, so it imports nothing else of the project.
"""

# Why the C parts `_socket` and `_json` instead of `socket` and `json`: every pod waits for this
# process to start, and its time is mostly imports. The C parts cost half a millisecond, the public
# modules twelve, since they import enum, selectors, re and more. The C parts are private to Python,
# so each has the public module as a fallback. For the same reason there is no argparse, logging or
# http.client, and -S in the first line skips the `site` module.
#
# Why it decides nothing: it cannot keep state, and an agent can be updated without a change of the
# binary on the host. A decision made in both would have to agree across versions.

import posix
import sys

try:
    import _socket as sockets
except ImportError:  # pragma: no cover - no supported Python
    import socket as sockets  # type: ignore[no-redef]

VERSION = "0.2.0"
"""That of `core.version`, which this file cannot import; a test compares them."""
GIT_COMMIT = ""
BUILD_TIME = ""
SUPPORTED = ("0.3.1", "0.4.0", "1.0.0", "1.1.0")
LATEST = SUPPORTED[-1]
DEFAULT_VERSION = "0.3.1"
"""The version for a configuration without one; the original always answered with it."""

SOCKET = "/run/contiv/contiv-cni.sock"
SOCKET_VARIABLE = "CONTIV_CNI_SOCKET"
TIMEOUT = 90
"""Seconds for each send, receive or connect; less than kubelet's two minutes."""
MAX_BYTES = 1 << 20
"""Limit of stdin and of the agent's reply."""

INCOMPATIBLE_VERSION = 1
INVALID_ENVIRONMENT = 4
DECODING_FAILURE = 6
TRY_AGAIN_LATER = 11
NOT_AVAILABLE = 50
"""STATUS: no ADD can be carried out now."""
BROKEN_REPLY = 100

PATHS = {
    "ADD": "/ContivCNI.AddPod",
    "DEL": "/ContivCNI.DelPod",
    "CHECK": "/ContivCNI.CheckPod",
    "GC": "/ContivCNI.CollectPods",
    "STATUS": "/ContivCNI.Status",
}
SINCE = {"CHECK": "0.4.0", "GC": "1.1.0", "STATUS": "1.1.0"}
"""The first version of the protocol that has a verb; the other verbs are in all of them."""
REQUIRED = {
    "ADD": ("CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"),
    "DEL": ("CNI_CONTAINERID", "CNI_IFNAME"),
    "CHECK": ("CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"),
    "GC": (),
    "STATUS": (),
}
POD_KEYS = ("K8S_POD_NAME", "K8S_POD_NAMESPACE", "K8S_POD_INFRA_CONTAINER_ID")
CNI_KEYS = ("CNI_NETNS", "CNI_IFNAME", "CNI_CONTAINERID", "CNI_ARGS")

USAGE = "Usage of contivk8s:\n  -version\n    \tShow version\n"


class CniError(Exception):
    """A failure with an error code of the CNI specification."""

    def __init__(self, code: int, msg: str, details: str = "") -> None:
        super().__init__(msg)
        self.code = code
        self.msg = msg
        self.details = details

    def text(self, version: str) -> str:
        """Return the error object for stdout."""
        members = [("cniVersion", encode(version)), ("code", str(self.code))]
        members += [("msg", encode("Contiv:" + self.msg)), ("details", encode(self.details))]
        return "{" + ",".join(f'"{name}":{value}' for name, value in members) + "}"


def answer(env: dict[str, str], stdin: bytes) -> tuple[int, str]:
    """Return exit code and stdout of one CNI call."""
    version = LATEST
    verb = env.get("CNI_COMMAND", "")
    try:
        config = configuration(stdin)
        requested = member(config, "cniVersion", DEFAULT_VERSION)
        if requested in SUPPORTED:
            version = str(requested)
        if verb == "VERSION":
            return 0, versions(requested)
        check_environment(verb, env)
        check_version(requested, verb)
        return ask_agent(PATHS[verb], socket_path(config, env), request_body(env, stdin))
    except CniError as error:
        if verb == "STATUS" and error.code == TRY_AGAIN_LATER:
            error.code = NOT_AVAILABLE
        return 1, error.text(version)


def configuration(stdin: bytes) -> dict[str, object]:
    """Parse the network configuration; empty input is an empty one."""
    if len(stdin) > MAX_BYTES:
        raise CniError(DECODING_FAILURE, "network configuration is too long", f"> {MAX_BYTES}")
    try:
        config = decode(stdin.decode()) if stdin.strip() else {}
    except (ValueError, RecursionError) as error:
        raise CniError(DECODING_FAILURE, "network configuration is not JSON", str(error)) from error
    if not isinstance(config, dict):
        raise CniError(DECODING_FAILURE, "network configuration is not a JSON object")
    return config


def member(config: dict[str, object], name: str, default: object = None) -> object:
    """Return a member as Go's decoder finds it: by its name in any case, the last one; not null."""
    wanted = folded(name)
    found = [one for key, one in config.items() if folded(key) == wanted and one is not None]
    return found[-1] if found else default


def folded(name: str) -> str:
    """Return what the names of a member have in common for Go: two letters beside ASCII fold."""
    return name.replace("\u017f", "s").replace("\u212a", "k").lower()


def versions(requested: object) -> str:
    """Return the answer to VERSION, in the version of the request."""
    used = requested if isinstance(requested, str) else LATEST
    supported = ",".join(encode(version) for version in SUPPORTED)
    return f'{{"cniVersion":{encode(used)},"supportedVersions":[{supported}]}}'


def check_environment(verb: str, env: dict[str, str]) -> None:
    """Raise CniError for unknown verbs and missing variables."""
    if not verb:
        raise CniError(
            INVALID_ENVIRONMENT, "CNI_COMMAND is not set", "a container runtime runs this program"
        )
    if verb not in PATHS:
        raise CniError(
            INVALID_ENVIRONMENT,
            f"unknown CNI_COMMAND: {verb}",
            f"known are {', '.join(PATHS)} and VERSION",
        )
    missing = [name for name in REQUIRED[verb] if not env.get(name)]
    if missing:
        raise CniError(INVALID_ENVIRONMENT, "required env variables missing", ", ".join(missing))


def check_version(requested: object, verb: str) -> None:
    """Raise CniError for an unsupported protocol version, and for one that lacks the verb."""
    if requested not in SUPPORTED:
        raise CniError(
            INCOMPATIBLE_VERSION,
            "incompatible CNI versions",
            f"config is {requested!r}, plugin supports {', '.join(SUPPORTED)}",
        )
    since = SINCE.get(verb, DEFAULT_VERSION)
    if SUPPORTED.index(requested) < SUPPORTED.index(since):
        raise CniError(
            INCOMPATIBLE_VERSION,
            f"config version does not allow {verb}",
            f"config is {requested!r}, {verb} needs {since}",
        )


def socket_path(config: dict[str, object], env: dict[str, str]) -> str:
    """Return the agent's socket: from the configuration, the environment or the default."""
    section = member(config, "contiv")
    configured = member(section, "socket") if isinstance(section, dict) else None
    if isinstance(configured, str) and configured:
        return configured
    return env.get(SOCKET_VARIABLE) or SOCKET


def pod_arguments(text: str) -> dict[str, str]:
    """Parse CNI_ARGS, `a=b;c=d`; a value may contain "=". Raises ValueError."""
    pairs = {}
    for pair in text.split(";"):
        name, equals, value = pair.partition("=")
        if equals:
            pairs[name] = value
        elif name:
            raise ValueError(f"invalid CNI_ARGS pair {name!r}")
    return pairs


def request_body(env: dict[str, str], stdin: bytes) -> bytes:
    """Return the request: the original's fields, container id and arguments, and stdin unchanged.

    Malformed arguments are passed on; the agent refuses them.
    """
    try:
        arguments = pod_arguments(env.get("CNI_ARGS", ""))
    except ValueError:
        arguments = {}
    fields = {name: arguments.get(name, "") for name in POD_KEYS}
    fields.update((name, env.get(name, "")) for name in CNI_KEYS)
    fields["netconf"] = stdin.decode()
    members = [f"{encode(name)}:{encode(value)}" for name, value in fields.items() if value]
    return ("{" + ",".join(members) + "}").encode()


def ask_agent(path: str, where: str, body: bytes) -> tuple[int, str]:
    """Post a request to the agent; return exit code and stdout from its reply."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    try:
        reply = exchange(where, head.encode() + body)
    except BlockingIOError as error:
        raise CniError(
            TRY_AGAIN_LATER, "the agent does not answer", f"{where}: nothing for {TIMEOUT} s"
        ) from error
    except (OSError, ValueError) as error:  # ValueError: no path of a socket
        why = getattr(error, "strerror", None) or error
        raise CniError(TRY_AGAIN_LATER, "the agent does not answer", f"{where}: {why}") from error
    return read_reply(reply, where)


def exchange(where: str, request: bytes) -> bytes:
    """Send a request to a unix socket and return the whole reply. Raises OSError."""
    word = 8 if sys.maxsize > 1 << 32 else 4
    limit = TIMEOUT.to_bytes(word, sys.byteorder) + bytes(word)
    agent = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    try:
        # Timeouts of the kernel, not of Python: Python's make the socket non-blocking, and then
        # `connect` fails at once with EAGAIN while the agent's listen queue is full, for instance
        # when a node starts with many pods. A blocking `connect` waits for a place.
        agent.setsockopt(sockets.SOL_SOCKET, sockets.SO_SNDTIMEO, limit)
        agent.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVTIMEO, limit)
        agent.connect(where)
        agent.sendall(request)
        reply = b""
        while len(reply) <= MAX_BYTES and (part := agent.recv(1 << 16)):
            reply += part
        return reply
    finally:
        agent.close()


def read_reply(reply: bytes, where: str) -> tuple[int, str]:
    """Return exit code and stdout from an HTTP reply. Raises CniError for any other reply."""
    head, blank, body = reply.partition(b"\r\n\r\n")
    if not blank:
        raise CniError(TRY_AGAIN_LATER, "the agent closed the connection without a reply")
    status = head.split(b"\r\n", 1)[0].decode("latin-1").partition(" ")[2]
    try:
        fields = decode(body.decode())
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise refusal(status, body, where)
    text = fields.get("cni")
    if not isinstance(text, str):
        raise CniError(
            BROKEN_REPLY,
            str(fields.get("errmsg") or "the agent's reply has no CNI result"),
            str(fields.get("errinfo") or f"HTTP {status}"),
        )
    return (0 if status.startswith("200") else 1), text


def refusal(status: str, body: bytes, where: str) -> CniError:
    """Return the error for a reply that is no CNI reply: what it was, and what to do."""
    said = f"HTTP {status}: {body[:200].decode(errors='replace').strip()}"
    if status.startswith("403"):
        return CniError(
            BROKEN_REPLY,
            "access denied",
            f"{said}: run the plugin as root, or as the user of netplugin",
        )
    if status.startswith("404"):
        return CniError(
            BROKEN_REPLY,
            "page not found",
            f"{said}: install the contivk8s of the netplugin that listens at {where}",
        )
    if status.startswith(("408", "502", "503", "504")):
        return CniError(
            TRY_AGAIN_LATER,
            "the agent cannot answer now",
            f"{said}: is {where} the socket of netplugin?",
        )
    return CniError(
        BROKEN_REPLY,
        "the reply is not one of the agent",
        f"{said}: is {where} the socket of netplugin?",
    )


def decode(text: str) -> object:
    """Parse a JSON text. Raises ValueError with the fault and its position."""
    blanks = " \t\r\n"
    try:
        from _json import make_scanner  # noqa: PLC0415 - see the top

        scan = make_scanner(ScannerOptions)  # type: ignore[arg-type]  # the stubs ask for too much
        value, end = scan(text.strip(blanks), 0)
        whole = end == len(text.strip(blanks))
    except (ImportError, AttributeError, StopIteration, SystemError, ValueError):
        whole, value = False, None
    if whole:
        return value
    import json  # noqa: PLC0415 - as above; it reports the fault

    return json.loads(text)


class ScannerOptions:
    """The attributes that the C scanner reads from its decoder."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def encode(text: str) -> str:
    """Return a JSON string literal."""
    try:
        from _json import encode_basestring_ascii  # noqa: PLC0415 - see the top
    except ImportError:  # pragma: no cover - no supported Python
        from json.encoder import encode_basestring_ascii  # noqa: PLC0415

    return encode_basestring_ascii(text)


def flags(arguments: list[str]) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr of a call with arguments."""
    for argument in arguments:
        if argument in {"-version", "--version"}:
            shown = {"Version": VERSION, "GitCommit": GIT_COMMIT, "BuildTime": BUILD_TIME}
            return 0, "".join(f"{name}: {value}\n" for name, value in shown.items()), ""
        if argument in {"-h", "-help", "--help"}:
            return 0, "", USAGE
        if argument.startswith("-"):
            return 2, "", f"flag provided but not defined: {argument}\n{USAGE}"
    return 2, "", USAGE


def read_stdin() -> bytes:
    """Return stdin, up to a little more than the limit."""
    text = b""
    while len(text) <= MAX_BYTES and (part := posix.read(0, 1 << 16)):
        text += part
    return text


def write(descriptor: int, text: str) -> None:
    """Write the whole text; a pipe may accept only a part at once."""
    rest = text.encode()
    while rest:
        rest = rest[posix.write(descriptor, rest) :]


def main() -> int:
    """Answer one call; return the exit code."""
    if len(sys.argv) > 1:
        code, out, err = flags(sys.argv[1:])
        write(2, err)
    else:
        env = {
            name.decode("utf-8", "replace"): value.decode("utf-8", "replace")
            for name, value in posix.environ.items()
        }
        code, out = answer(env, read_stdin())
    write(1, out)
    return code


if __name__ == "__main__":
    # Exit without the interpreter's shutdown, which takes a millisecond; nothing is buffered.
    posix._exit(main())  # noqa: SLF001 - posix has no other name for it
