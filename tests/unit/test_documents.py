"""The documents say what is there: modules, tables, links, log events and flags.

`tests/unit/test_deviations.py` checks the page of deviations, `tests/unit/netctl` and the settings'
tests those of commands and flags.
"""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest

from bench.__main__ import BENCHMARKS
from netctl import main as netctl
from netmaster.commands.dispatch import _ON_STORE, COMMANDS
from netplugin.entry import CNI_FILES
from netplugin.ovsdb import BridgeSpec
from ofnet.openflow import fields
from ofnet.openflow.fields import Field
from ofnet.tables import Priority
from tests.unit.scripts import script

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = (
    *("core", "daemons", "contivmodel", "objdb", "state", "ofnet"),
    *("netmaster", "netplugin", "contivk8s", "netctl"),
)
RUNBOOKS: Final = ("installation", "upgrade", "take-over", "operations")
"""The guides whose commands people type."""
WIDTH: Final = 120
GUIDES: Final = ("architecture", "pipeline", "troubleshooting")
PAGES: Final = tuple(
    str(path.relative_to(ROOT)) for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
)
BITS: Final = {name: bits for name, bits in vars(fields).items() if isinstance(bits, Field)}


def guide(name: str) -> str:
    """Return the text of a guide."""
    return (ROOT / "docs" / f"{name}.md").read_text()


def modules() -> set[str]:
    """Return all modules of the packages by their dotted names, without `__init__`."""
    paths = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return {_dotted(path) for path in paths if path.name != "__init__.py"}


def _dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


# -- architecture ------------------------------------------------------------------------------


def test_every_module_is_in_the_index_and_every_entry_is_a_module() -> None:
    listed = re.findall(r"^\| `([\w.]+)` \| (.*) \|$", guide("architecture"), re.MULTILINE)
    assert {name for name, _ in listed} == modules(), "run scripts/module-index"
    assert len(listed) == len(modules())
    assert [name for name, said in listed if not said] == []


def test_every_package_has_a_paragraph() -> None:
    paragraphs = set(re.findall(r"^\*\*(\w+)\*\*", guide("architecture"), re.MULTILINE))
    assert paragraphs >= set(PACKAGES)


@pytest.mark.parametrize("page", GUIDES)
def test_modules_that_are_named_exist(page: str) -> None:
    names = set(re.findall(rf"\b((?:{'|'.join(PACKAGES)})(?:\.\w+)+)", guide(page)))
    assert sorted(name for name in names if not _is_there(name)) == []


def _is_there(name: str) -> bool:
    """Tell whether a dotted name is a module, a package, or a name at the top of a module."""
    path = ROOT.joinpath(*name.split("."))
    if path.with_suffix(".py").exists() or (path / "__init__.py").exists():
        return True
    if name.endswith((".py", ".md", ".service", ".socket", ".sock", ".log")):
        return True
    module = path.parent.with_suffix(".py")
    return module.exists() and path.name in _top_names(module)


def _top_names(module: Path) -> set[str]:
    found = set()
    for node in ast.parse(module.read_text()).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.ClassDef(name=name, body=body):
                found.add(name)
                found |= {part.name for part in body if isinstance(part, ast.FunctionDef)}
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case _:
                pass
    return found


# -- the pipeline ------------------------------------------------------------------------------


def test_the_pipeline_page_has_the_tables_as_declared() -> None:
    assert script("pipeline-tables").main(["--check"]) == 0, "run scripts/pipeline-tables"


@pytest.mark.parametrize(("name", "bits"), BITS.items())
def test_the_pipeline_page_has_the_bits_of_the_metadata(name: str, bits: Field) -> None:
    last = bits.shift + bits.width - 1
    span = f"{bits.shift}-{last}" if bits.width > 1 else f"{bits.shift}"
    assert f"\n| {span} | `{name}` |" in guide("pipeline")


def test_the_pipeline_page_has_every_priority() -> None:
    rows = re.findall(r"^\| ([^|]+) \| (`[^|]+) \|", guide("pipeline"), re.MULTILINE)
    listed = {
        name: numbers for numbers, names in rows for name in re.findall(r"`([A-Z_]+)`", names)
    }
    for name, priority in Priority.__members__.items():
        low, *_, high = sorted(int(number) for number in re.findall(r"\d+", listed[name]) * 2)
        assert low <= priority <= high, name


# -- API v2 ------------------------------------------------------------------------------------


def test_the_page_of_api_v2_is_that_of_the_routes() -> None:
    assert script("api-page").main(["--check"]) == 0, "run scripts/api-page"


# -- troubleshooting ---------------------------------------------------------------------------


def test_log_events_that_are_named_are_logged() -> None:
    said = " ".join("".join(map(guide, (*RUNBOOKS, "troubleshooting"))).split())
    events = set(re.findall(r"\*log\* `([^`]+)`", said))
    sources = "".join(
        path.read_text() for package in PACKAGES for path in (ROOT / package).rglob("*.py")
    )
    assert events
    assert sorted(event for event in events if f'"{event}' not in sources) == []


def test_flags_that_are_named_exist() -> None:
    known = set(re.findall(r"`(--[\w-]+)", guide("flags") + guide("netctl")))
    named = set(re.findall(r"`(--[a-z][\w-]+)", guide("troubleshooting")))
    assert sorted(named - known) == []


# -- commands ----------------------------------------------------------------------------------


def commands(page: str) -> Iterator[list[str]]:
    """Yield the words of each command of ours in a guide's code."""
    text = guide(page)
    spans = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    spans += re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    for line in "\n".join(spans).splitlines():
        for part in re.split(r"[;|&()<>]", line.partition(" #")[0]):
            words = part.split()
            if len(words) > 1 and words[0] in {"netctl", "netmaster", "netplugin", "make"}:
                yield words
            elif words[:3] == ["python", "-m", "bench"]:
                yield ["bench", *words[3:]]


def unknown(words: list[str]) -> str:
    """Return what a command names that is not there; "" if all is."""
    program, name = words[:2]
    flags = [word.partition("=")[0] for word in words[1:] if word.startswith("--")]
    if program == "netctl":
        return _unknown_to_netctl(words[1:])
    if program == "make":
        targets = re.findall(
            r"^([\w-]+(?: [\w-]+)*):", (ROOT / "Makefile").read_text(), re.MULTILINE
        )
        return "" if name in {one for line in targets for one in line.split()} else name
    if program == "bench":
        return "" if name in BENCHMARKS else name
    known = {f"--{one}" for _, has in _ON_STORE.values() for flag in has for one in flag.names}
    known |= {*re.findall(r"`(--[\w-]+)", guide("flags")), "--version"}
    subcommands = {"netmaster": {*COMMANDS}, "netplugin": {*CNI_FILES, "cleanup", "preflight"}}
    if not name.startswith("--") and name not in subcommands[program]:
        return name
    return next((flag for flag in flags if flag not in known), "")


def _unknown_to_netctl(words: list[str]) -> str:
    command: click.Command = netctl.cli
    for word in words:
        if word.startswith("-"):
            flag = word.partition("=")[0]
            if not any(flag in one.opts for one in command.params):
                return flag
        elif isinstance(command, click.Group):
            found = command.get_command(click.Context(command), word)
            if found is None:
                return word
            command = found
    return ""


@pytest.mark.parametrize("page", RUNBOOKS)
def test_commands_that_are_named_exist(page: str) -> None:
    found = list(commands(page))
    assert found
    assert {" ".join(words): what for words in found if (what := unknown(words))} == {}


# -- links -------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert [link for link in links if "://" not in link and not _leads(ROOT / page, link)] == []


def _leads(page: Path, link: str) -> bool:
    file, _, anchor = link.partition("#")
    target = page.parent / file if file else page
    return target.exists() and (not anchor or anchor in _anchors(target.resolve()))


@functools.cache
def _anchors(page: Path) -> set[str]:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


# -- the site ----------------------------------------------------------------------------------


# -- trust -------------------------------------------------------------------------------------


def test_every_test_of_the_threat_model_is_there() -> None:
    model = (ROOT / "SECURITY.md").read_text().partition("## Threat model")[2]
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", model)
    assert len(named) > 30
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not (ROOT / path).exists() or (name and f"def {name}(" not in (ROOT / path).read_text())
    ]
    assert missing == []


def test_every_finding_of_the_attack_has_a_test() -> None:
    sections = re.findall(r"^## (\d+)\.", guide("notes/trust"), re.MULTILINE)
    tests = (path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    shown = {n for text in tests for n in re.findall(r"docs/notes/trust\.md §(\d+)", text)}
    assert sections == sorted(shown, key=int)


@pytest.mark.parametrize("page", ["SECURITY.md", "docs/limits.md"])
def test_the_packets_that_an_agent_takes_are_the_same_number_everywhere(page: str) -> None:
    limit = BridgeSpec(name="b", controller="tcp:127.0.0.1:6633").packets_per_second
    assert f" {limit} a second for each bridge" in (ROOT / page).read_text()


# -- form ----------------------------------------------------------------------------------------


def test_each_change_since_the_first_release_is_one_line() -> None:
    """Who upgrades reads hundreds of them; figures belong to docs/performance.md."""
    text = (ROOT / "CHANGELOG.md").read_text()
    since_first = text[text.index("\n## [") : text.index("## [0.1.0]")]
    entries = re.findall(r"^- .*\n(?:(?!- |#|\n).*\n)*", since_first, re.MULTILINE)
    assert [entry for entry in entries if entry.count("\n") > 1] == []
    assert len(entries) == len(re.findall(r"^- ", since_first, re.MULTILINE)) > 0


@pytest.mark.parametrize("page", ["kubernetes", "operations"])
def test_lines_of_the_long_guides_are_short(page: str) -> None:
    """Rows of tables and what is typed cannot be broken."""
    long, code = [], False
    for line in guide(page).splitlines():
        code ^= line.lstrip().startswith("```")
        if len(line) > WIDTH and not code and not line.lstrip().startswith("|"):
            long.append(line)
    assert long == []


def test_the_list_of_decisions_names_each_once_in_order() -> None:
    pages = sorted(path.name for path in (ROOT / "docs/adr").glob("0*.md"))
    rows = re.findall(
        r"^\| \[(\d+)\]\((\S+)\)", (ROOT / "docs/adr/README.md").read_text(), re.MULTILINE
    )
    assert [page for _, page in rows] == pages
    assert [int(number) for number, _ in rows] == [int(page[:4]) for page in pages]
