#!/usr/bin/python3 -IS
"""The CNI plugin that a container runtime runs for every pod: a pipe to the agent of this host.

Takes the environment and the network configuration (stdin) of one CNI call; prints the agent's
answer from its unix socket (`netplugin.cni.server`) unchanged. The agent does all the work. This
program only answers VERSION, refuses malformed calls, and reports an agent that does not answer.

This file alone is installed on hosts, so it imports nothing else of the project. Hosts without
Python get `contivk8s/main.c`, which does the same for every call, byte for byte; what it can only
do at length is not done here either (`too_deep`, `words`).
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
MAX_DEPTH = 200
"""Levels of arrays and objects in them."""
LONGEST_PATH = 108
"""Bytes from which on a path is too long for a unix socket."""
SHOWN = 200
"""Bytes that an error shows of what is not understood."""
HEX = "0123456789abcdef"

INCOMPATIBLE_VERSION = 1
INVALID_ENVIRONMENT = 4
UNREADABLE = 5
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

Object = tuple[tuple[str, object], ...]
"""An object of JSON as its members in their order, since names may repeat (`member`)."""

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
        declared = member(config, "cniVersion")
        requested = DEFAULT_VERSION if declared is None else words(declared)
        if requested in SUPPORTED:
            version = requested
        if verb == "VERSION":
            return 0, versions(requested)
        check_environment(verb, env)
        check_version(requested, verb)
        where, body = socket_path(config, env), request_body(env, stdin)
        return ask_agent(PATHS[verb], where, body, trace_parent(env))
    except CniError as error:
        if verb == "STATUS" and error.code == TRY_AGAIN_LATER:
            error.code = NOT_AVAILABLE
        return 1, error.text(version)


def configuration(stdin: bytes) -> Object:
    """Parse the network configuration; empty input is an empty one."""
    if len(stdin) > MAX_BYTES:
        raise CniError(
            DECODING_FAILURE, "network configuration is too long", f"more than {MAX_BYTES} bytes"
        )
    begin = f"it begins with: {stdin[:SHOWN].strip().decode(errors='replace')}"
    try:
        config = decode(stdin) if stdin.strip() else ()
    except ValueError as error:
        raise CniError(DECODING_FAILURE, "network configuration is not JSON", begin) from error
    if not isinstance(config, tuple):
        raise CniError(DECODING_FAILURE, "network configuration is not a JSON object", begin)
    return config


def member(value: object, name: str) -> object:
    """Return a member as Go's decoder finds it: by its name in any case, the last one; not null.

    None if there is none, or the value is no object.
    """
    wanted = folded(name)
    pairs = value if isinstance(value, tuple) else ()
    found = [one for key, one in pairs if folded(key) == wanted and one is not None]
    return found[-1] if found else None


def words(value: object) -> str | None:
    """Return a string of JSON as text that can be written; None for another value.

    Half a surrogate pair is no character.
    """
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


def folded(name: str) -> str:
    """Return what the names of a member have in common for Go: two letters beside ASCII fold."""
    return name.replace("\u017f", "s").replace("\u212a", "k").lower()


def versions(requested: str | None) -> str:
    """Return the answer to VERSION, in the version of the request."""
    used = LATEST if requested is None else requested
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


def check_version(requested: str | None, verb: str) -> None:
    """Raise CniError for an unsupported protocol version, and for one that lacks the verb."""
    shown = "no string" if requested is None else f"'{requested}'"
    if requested not in SUPPORTED:
        raise CniError(
            INCOMPATIBLE_VERSION,
            "incompatible CNI versions",
            f"config is {shown}, plugin supports {', '.join(SUPPORTED)}",
        )
    since = SINCE.get(verb, DEFAULT_VERSION)
    if SUPPORTED.index(requested) < SUPPORTED.index(since):
        raise CniError(
            INCOMPATIBLE_VERSION,
            f"config version does not allow {verb}",
            f"config is {shown}, {verb} needs {since}",
        )


def socket_path(config: Object, env: dict[str, str]) -> str:
    """Return the agent's socket: from the configuration, the environment or the default."""
    configured = words(member(member(config, "contiv"), "socket"))
    return configured or env.get(SOCKET_VARIABLE) or SOCKET


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


def trace_parent(env: dict[str, str]) -> str:
    """Return the trace that the runtime has this call be of, else a new one.

    As the header of W3C Trace Context has it; the variable is OpenTelemetry's.
    """
    given = env.get("TRACEPARENT", "")
    form = "".join("x" if one in HEX else one for one in given)
    return given if form == "xx-" + "x" * 32 + "-" + "x" * 16 + "-xx" else new_trace()


def new_trace() -> str:
    """Return a trace of its own."""
    drawn = posix.urandom(24).hex()
    return f"00-{drawn[:32]}-{drawn[32:]}-01"


def ask_agent(path: str, where: str, body: bytes, trace: str) -> tuple[int, str]:
    """Post a request to the agent; return exit code and stdout from its reply.

    Without a reply the error tells the trace, by which the agent's log has the call.
    """
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"traceparent: {trace}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    told = "trace " + trace.split("-")[1]
    address = where.encode()
    if len(address) >= LONGEST_PATH or b"\0" in address:
        raise CniError(
            TRY_AGAIN_LATER, "the agent does not answer", f"{where}: no path of a socket"
        )
    try:
        reply = exchange(address, head.encode() + body)
    except BlockingIOError as error:
        raise CniError(
            TRY_AGAIN_LATER,
            "the agent does not answer",
            f"{where}: nothing for {TIMEOUT} s, {told}",
        ) from error
    except OSError as error:
        raise CniError(
            TRY_AGAIN_LATER, "the agent does not answer", f"{where}: {error.strerror}"
        ) from error
    return read_reply(reply, where, told)


def exchange(where: bytes, request: bytes) -> bytes:
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


def read_reply(reply: bytes, where: str, told: str) -> tuple[int, str]:
    """Return exit code and stdout from an HTTP reply. Raises CniError for any other reply."""
    if len(reply) > MAX_BYTES:
        raise CniError(BROKEN_REPLY, "the agent's reply is too long", where)
    head, blank, body = reply.partition(b"\r\n\r\n")
    if not blank:
        raise CniError(TRY_AGAIN_LATER, "the agent closed the connection without a reply", told)
    status = head.split(b"\r\n", 1)[0].partition(b" ")[2].decode(errors="replace")
    try:
        fields = decode(body)
    except ValueError:
        fields = None
    if not isinstance(fields, tuple):
        raise refusal(status, body, where)
    text = words(member(fields, "cni"))
    if text is None:
        raise CniError(
            BROKEN_REPLY,
            words(member(fields, "errmsg")) or "the agent's reply has no CNI result",
            words(member(fields, "errinfo")) or f"HTTP {status}",
        )
    return (0 if status.startswith("200") else 1), text


def refusal(status: str, body: bytes, where: str) -> CniError:
    """Return the error for a reply that is no CNI reply: what it was, and what to do."""
    said = f"HTTP {status}: {body[:SHOWN].strip().decode(errors='replace')}"
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


def decode(raw: bytes) -> object:
    """Parse a JSON text; objects become tuples of pairs. Raises ValueError."""
    text = raw.decode().strip(" \t\r\n")
    if too_deep(text):
        raise ValueError(f"more than {MAX_DEPTH} levels")
    try:
        from _json import make_scanner  # noqa: PLC0415 - see the top

        scan = make_scanner(ScannerOptions)  # type: ignore[arg-type]  # the stubs ask for too much
    except (ImportError, AttributeError):
        import json  # noqa: PLC0415 - as above

        scan = json.JSONDecoder(  # type: ignore[assignment]
            object_pairs_hook=tuple, parse_int=float, parse_constant=int
        ).raw_decode
    try:
        value, end = scan(text, 0)
    except (StopIteration, SystemError) as error:  # SystemError: the scanner cannot report a fault
        raise ValueError("no JSON") from error
    if end != len(text):
        raise ValueError("more than a value")
    return value


def too_deep(text: str) -> bool:
    """Whether arrays and objects stand in more than `MAX_DEPTH` others, if the text is JSON.

    The scanner's own limit is another one in each version of Python.
    """
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    outside = "".join(text.replace("\\\\", "").replace('\\"', "").split('"')[::2])
    depth = 0
    for character in outside:
        depth += (character in "[{") - (character in "]}")
        if depth > MAX_DEPTH:
            return True
    return False


class ScannerOptions:
    """The attributes that the C scanner reads from its decoder."""

    strict = True
    object_hook = None
    object_pairs_hook = tuple
    parse_float = float
    parse_int = float
    """`int` refuses numbers of many digits."""
    parse_constant = int
    """Which refuses them: NaN and Infinity are no JSON."""


def encode(text: str) -> str:
    """Return a JSON string literal."""
    try:
        from _json import encode_basestring_ascii  # noqa: PLC0415 - see the top
    except ImportError:  # pragma: no cover - no supported Python
        from json.encoder import encode_basestring_ascii  # noqa: PLC0415

    return encode_basestring_ascii(text)


def flags(arguments: list[str]) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr of a call with arguments."""
    first = arguments[0]
    if first in {"-version", "--version"}:
        shown = {"Version": VERSION, "GitCommit": GIT_COMMIT, "BuildTime": BUILD_TIME}
        return 0, "".join(f"{name}: {value}\n" for name, value in shown.items()), ""
    if first in {"-h", "-help", "--help"}:
        return 0, "", USAGE
    if first.startswith("-"):
        return 2, "", f"flag provided but not defined: {first}\n{USAGE}"
    return 2, "", USAGE


def read_stdin() -> bytes:
    """Return stdin, up to a little more than the limit."""
    text = b""
    while len(text) <= MAX_BYTES and (part := posix.read(0, 1 << 16)):
        text += part
    return text


def write(descriptor: int, data: bytes) -> None:
    """Write everything; a pipe may accept only a part at once, and nobody may read it any more."""
    try:
        while data:
            data = data[posix.write(descriptor, data) :]
    except OSError:
        return


def main() -> int:
    """Answer one call; return the exit code."""
    if len(sys.argv) > 1:
        code, out, err = flags(sys.argv[1:])
        write(2, err.encode("utf-8", "surrogateescape"))
    else:
        env = {
            name.decode("utf-8", "replace"): value.decode("utf-8", "replace")
            for name, value in posix.environ.items()
        }
        try:
            code, out = answer(env, read_stdin())
        except OSError as error:
            why = "network configuration cannot be read"
            code, out = 1, CniError(UNREADABLE, why, error.strerror or "").text(LATEST)
    write(1, out.encode())
    return code


if __name__ == "__main__":
    # Exit without the interpreter's shutdown, which takes a millisecond; nothing is buffered.
    posix._exit(main())  # noqa: SLF001 - posix has no other name for it
