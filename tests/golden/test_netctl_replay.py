"""A replay of the original's recorded netctl session against a real netmaster on a real store.

Each command line must print, and exit, as recorded; or it is pinned in `ours.jsonl` to a
deviation. What the place of the recording decides is mapped: times, addresses, the resolver's
words, build versions. Rows of lists are compared as sets; help by its commands, flags, aliases and
defaults.
"""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from contivmodel.client import (
    CREATE_ENDPOINT,
    DELETE_ENDPOINT,
    MasterClient,
)
from contivmodel.rpc import ConfigEP, CreateEndpointRequest, DeleteEndpointRequest
from netctl.main import run
from tests.bed.master import Master
from tests.bed.netns import free_port
from tests.bed.store import Store

HERE = Path(__file__).parent / "netctl"
DEVIATIONS = Path(__file__).parents[2] / "docs" / "deviations.md"
Step = dict[str, Any]

pytestmark = pytest.mark.store


def lines(name: str) -> list[Step]:
    """Return the objects of one file."""
    return [json.loads(line) for line in (HERE / name).read_text().splitlines()]


RECORDED: list[Step] = lines("steps.jsonl")[1:]
STEPS = {step["step"]: step for step in RECORDED if "argv" in step}
OURS = {step["step"]: step for step in lines("ours.jsonl")}

OTHER_SUMMARIES = {
    "netctl login": "Log in at a netmaster with TLS, or at the proxy before it",
    "netctl service": "Services: an address for the endpoints that labels select",
    "netctl service create": "Create a service",
    "netctl service inspect": "Inspect a service",
}
"""What help says in other words than recorded, since those are wrong here (`netctl-help`)."""


@dataclass(frozen=True)
class Outcome:
    """What one command line did."""

    exit: int
    stdout: str
    stderr: str


def steps(*, deviating: bool) -> list[Any]:
    """Return the parameters of the steps that deviate, or of those that do not."""
    return [
        pytest.param(number, id=f"{number}-{'_'.join(step['argv'][1:])[:40]}")
        for number, step in STEPS.items()
        if (number in OURS) is deviating
    ]


class Session:
    """The recorded command lines, run in order on one netmaster."""

    def __init__(self, master: Master, home: Path) -> None:
        self.master = master
        self._home = home
        self._input = home / "input"
        self._input.write_text("somebody\n")
        # another port on which nobody listens, as 9998 was
        self._places = {"10.77.0.1:9999": master.address, "10.77.0.1:9998": _closed_port()}
        self.outcomes: dict[int, Outcome] = {}

    def replay(self) -> None:
        """Run every step."""
        for step in RECORDED:
            if "argv" not in step:
                asyncio.run(self._out_of_band(step["note"]))
            else:
                self.outcomes[step["step"]] = self._run(step)

    def here(self, text: str) -> str:
        """Return recorded text with the addresses of this run."""
        for there, here in self._places.items():
            text = text.replace(there, here)
        return text

    def environment(self, step: Step) -> dict[str, str]:
        """Return the environment of a step."""
        recorded: Mapping[str, str | None] = {
            "NETMASTER": "http://10.77.0.1:9999",
            **step.get("env", {}),
        }
        kept = {name: self.here(value) for name, value in recorded.items() if value is not None}
        return {"HOME": str(self._home), "COLUMNS": "200", "PATH": os.environ["PATH"], **kept}

    def words(self, step: Step) -> list[str]:
        """Return the command line of a step, without the program."""
        return [self.here(word) for word in step["argv"][1:]]

    def _run(self, step: Step) -> Outcome:
        out, err = StringIO(), StringIO()
        with (
            # no terminal, as recorded: a login reads a name there, but no password
            self._input.open() as stdin,
            patch("sys.stdin", stdin),
            patch.dict(os.environ, self.environment(step), clear=True),
            patch("socket.getaddrinfo", _only_addresses),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            code = run(self.words(step))
        return Outcome(code, out.getvalue(), err.getvalue())

    async def _out_of_band(self, note: str) -> None:
        async with MasterClient(self.master.url) as client:
            if "createEndpoint" in note:
                config = ConfigEP(container="ep1", host="h1", service_name="g1")
                await client.call(
                    CREATE_ENDPOINT,
                    CreateEndpointRequest(
                        tenant_name="default",
                        network_name="n1",
                        service_name="g1",
                        endpoint_id="ep1",
                        common_name="c1",
                        config=config,
                    ),
                )
            else:
                await client.call(
                    DELETE_ENDPOINT,
                    DeleteEndpointRequest(
                        tenant_name="default", network_name="n1", endpoint_id="ep1"
                    ),
                )


def _closed_port() -> str:
    return f"127.0.0.1:{free_port(None)}"


_resolve = socket.getaddrinfo


def _only_addresses(host: str, *args: Any, **kwargs: Any) -> Any:
    """Resolve addresses, but no names: a test must not ask the network for one."""
    if not re.fullmatch(r"[0-9.:]+", host):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return _resolve(host, *args, **kwargs)


@pytest.fixture(scope="module")
def session(bed_dirs: Iterator[Path], store_session: Store) -> Iterator[Session]:
    """Replay the whole session once."""
    directory = next(bed_dirs)
    directory.mkdir()
    master = Master(directory, store_session)
    try:
        master.start()
        session = Session(master, directory)
        session.replay()
        yield session
    finally:
        master.kill()


Names = frozenset[str]


def help_items(text: str) -> dict[Names, str]:
    """Return what a help text offers, the original's or click's: names -> default.

    Names are those of a command or of a flag, aliases included, without dashes.
    """
    found: dict[Names, str] = {}
    section = ""
    # an entry that is too long for a line goes on below, farther in
    for line in re.sub(r"\n {4,}(?=\S)", " ", text).splitlines():
        if heading := re.match(r"(?i)(commands|options|global options):", line):
            section = heading[1].lower()
        elif section and line.startswith("  ") and line.strip():
            first, _, rest = re.sub(r"\t+|(?<=\S) {2,}", "\t", line.strip()).partition("\t")
            words = (
                first.split(", ") if section == "commands" else re.findall(r"--?([\w-]+)", first)
            )
            default = re.search(r'"([^"]*)"', first) or re.search(r"default: ([^];]*)", rest)
            found[frozenset(words)] = default[1] if default else ""
        else:
            section = section if line.strip() else ""
    return found


def assert_help(recorded: str, ours: str) -> None:
    """Fail unless our help offers what the recorded one does; others come besides."""
    wanted, offered = help_items(recorded), help_items(ours)
    besides = (
        *("capture", "completion", "diag", "host", "ipam", "tls-ca", "tls-cert", "tls-key"),
        *("events", "kube-stats", "log", "if-absent", "selftest", "stats", "trace", "what-if"),
        *("sort", "watch", "kube-rules", "flows", "exclude", "first-family", "set", "quota"),
        *("suggest", "wait", "audit", "router-ipv6", "neighbor-ipv6"),
    )
    own = {frozenset({"help", "h"}), frozenset({"ls", "list"}), frozenset({"o", "output"})}
    own |= {frozenset({name}) for name in besides}
    assert wanted.items() - offered.items() == set()
    topic_only = "USAGE" in recorded and not wanted
    assert topic_only or offered.keys() - wanted.keys() <= own
    name, _, summary = recorded.splitlines()[1].strip().partition(" - ")
    assert f"Usage: {name} " in ours
    assert OTHER_SUMMARIES.get(name, " ".join(summary.split())) in " ".join(ours.split())


def shown(stdout: str) -> Any:
    """Return what counts of an output: JSON as data, lines as a set below the table's head."""
    if stdout.startswith(("[", "{")):
        # objects become tuples of pairs: their order counts, and so does the layout of the text
        assert stdout == json.dumps(json.loads(stdout), indent=2) + "\n"
        return as_set(json.loads(stdout, object_pairs_hook=tuple))
    head, rows = [], stdout.splitlines()
    if len(rows) > 1 and rows[1].startswith("------"):
        head, rows = rows[:2], rows[2:]
    return head, sorted(re.sub(r"^(Version|GitCommit|BuildTime): .*", r"\1: ", row) for row in rows)


def as_set(value: Any) -> Any:
    """Return JSON data with lists in an order of their own: they are sets."""
    if isinstance(value, list):
        return sorted((as_set(item) for item in value), key=json.dumps)
    if isinstance(value, tuple):
        return tuple((name, as_set(item)) for name, item in value)
    return value


def complaint(stderr: str, *, first_line: bool) -> str:
    """Return an error line without its time and without what the resolver says of itself."""
    text = re.sub(r'^time="[^"]*" ', "", stderr)
    text = re.sub(r"(dial tcp: lookup \S+?):? .*", r"\1", text, flags=re.DOTALL)
    return text.partition("\n")[0] if first_line else text


def assert_as_recorded(step: Step, outcome: Outcome, session: Session) -> None:
    """Fail where a command line did something else than recorded."""
    assert outcome.exit == step["exit"]
    stacked = step.get("stacked", False)
    wanted = complaint(session.here(step["stderr"]), first_line=stacked)
    assert complaint(outcome.stderr, first_line=stacked) == wanted
    usage, separator, help_text = step["stdout"].rpartition("NAME:\n")
    if not separator:
        assert shown(outcome.stdout) == shown(step["stdout"])
        return
    assert outcome.stdout.startswith(usage)
    assert_help(separator + help_text, outcome.stdout)


def is_as_recorded(step: Step, outcome: Outcome, session: Session) -> bool:
    """Say whether a command line did what was recorded."""
    try:
        assert_as_recorded(step, outcome, session)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("number", steps(deviating=False))
def test_a_command_line_does_as_recorded(number: int, session: Session) -> None:
    assert_as_recorded(STEPS[number], session.outcomes[number], session)


@pytest.mark.parametrize("number", steps(deviating=True))
def test_a_deviating_command_line_does_as_pinned(number: int, session: Session) -> None:
    pinned, outcome = OURS[number], session.outcomes[number]
    assert outcome.exit == pinned["exit"]
    assert pinned["stdout"] in outcome.stdout
    assert pinned["stderr"] in outcome.stderr
    assert not is_as_recorded(STEPS[number], outcome, session)


@pytest.mark.parametrize("number", [8, 108, 109, 211])
def test_the_program_does_as_recorded_too(number: int, session: Session) -> None:
    step = STEPS[number]
    done = subprocess.run(
        [Path(sys.executable).with_name("netctl"), *session.words(step)],
        env=session.environment(step),
        capture_output=True,
        text=True,
        check=False,
    )
    assert_as_recorded(step, Outcome(done.returncode, done.stdout, done.stderr), session)


def test_every_deviation_is_documented() -> None:
    text = DEVIATIONS.read_text()
    ids = {step["id"] for step in OURS.values()}
    assert [name for name in sorted(ids) if f"| {name} |" not in text] == []


def test_the_counts(capsys: pytest.CaptureFixture[str]) -> None:
    counts = {
        "equal": len(steps(deviating=False)),
        "deviating": len(steps(deviating=True)),
        "total": len(RECORDED) - sum("note" in step for step in RECORDED),
    }
    with capsys.disabled():
        print(f"\nnetctl replay: {counts}")  # noqa: T201
    assert counts["equal"] + counts["deviating"] == counts["total"]
