"""Every citation in code and documentation leads somewhere.

A citation is a page with or without a section (`docs/<page>.md`, then §n or #n), a link of a page,
a decision (ADR n), a module or a name in it by its dotted path, or a path of the repository, the
last two in backticks. In code a dotted path may begin at a module of the same package or of one
above, and the docstring of a package names its modules alone. Text over a line end is joined first.
A section without a page is the page's own in documentation, and a fault in code, where nothing says
which page is meant.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = tuple(
    sorted(
        path.name
        for path in ROOT.iterdir()
        # `build` has what was made, the images' root file systems among it
        if path.is_dir() and path.name[0].isalpha() and path.name != "build"
    )
)
PACKAGES = tuple(name for name in FOLDERS if (ROOT / name / "__init__.py").exists())
SOURCES = sorted(
    path.relative_to(ROOT).as_posix()
    for top in (*(ROOT / name for name in FOLDERS), ROOT)
    for path in (top.rglob("*") if top != ROOT else top.glob("*"))
    if path.suffix in {".py", ".md", ".toml"} and not any(p[0] == "." for p in path.parts[1:])
)
"""Where citations stand, as paths from the repository's root."""

SELF = Path(__file__).relative_to(ROOT).as_posix()
MADE_UP = {SELF, "tests/unit/test_deviations.py"}
"""Tests of checkers, with citations of what is not there."""

ORIGINAL = "docs/original/"
"""Pages about the Go source: dotted names and most paths there are Go's."""

ELSEWHERE = {*PACKAGES, "ovs", "socket", "json"}
"""What docstrings of packages name beside their modules."""

SERVICES = {
    "netmaster.rpc",
    "netplugin.rest",
    "netplugin.vtep",
    "netplugin.sock",
    "netplugin.socket",
}
"""Names of the service registry, of a socket and its unit, which look like modules."""

SECTION = r"(?:§\d+(?:\.\d+)*(?:-\d+)?|#\d+)"
SECTIONS = rf"((?:(?:,? and |, | ){SECTION})*)"
PAGE = re.compile(rf"\b(docs/[\w./-]+?\.md)\b`?{SECTIONS}")
LINK = re.compile(rf"\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)\s]*)?\){SECTIONS}")
BARE_PAGE = re.compile(rf"(?<![\w/(\[-])([\w-]+\.md){SECTIONS}")
RFC = re.compile(r"RFCs? \d+(?:,? §[\d.]+)*")
DECISION = re.compile(r"\bADRs? (\d+(?:(?:, | and |-)(?:ADR )?\d+)*)|\bdocs/adr/(\d{4})\b(?!-)")
DOTTED = re.compile(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)+)(?:\(\))?`")
RELATIVE = re.compile(r"`([a-z]\w*(?:\.\w+)+)(?:\(\))?`")
MEMBER = re.compile(r"`([a-z]\w*)`")
PATH = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[^`\s]*)`")
BROKEN = re.compile(r"\bdocs/(?:[\w-]+/)*\n")


class Citation(NamedTuple):
    """What a file cites: a kind, the thing, and a section of it or nothing."""

    kind: str
    target: str
    section: str = ""


def joined(text: str) -> str:
    """Return text with its line ends, indents and comment signs as single blanks."""
    return re.sub(r"\s*\n\s*(?:# ?(?!#))?\s*", " ", text)


def sections(found: str) -> Iterator[str]:
    """Yield what `SECTIONS` found: "1.2", "#21"; the range §2-4 as "2" and "4"."""
    for one in re.findall(SECTION, found):
        if one.startswith("#"):
            yield one
        else:
            yield from one[1:].split("-")


def cited(source: str, text: str) -> Iterator[Citation]:
    """Yield what a file cites; `source` is its path."""
    if BROKEN.search(text):
        yield Citation("page", "broken over a line end")
    text = joined(text)
    folder = Path(source).parent
    covered = [found.span() for found in RFC.finditer(text)]
    for pattern in (PAGE, LINK, BARE_PAGE) if source.endswith(".md") else (PAGE,):
        for found in pattern.finditer(text):
            if pattern is BARE_PAGE and not found[2]:
                continue
            covered.append(found.span())
            place = found[1] if pattern is PAGE else _normal(folder / found[1])
            kind = "link" if pattern is LINK else "page"
            yield from (Citation(kind, place, one) for one in (*sections(found[2]), ""))
    for found in re.finditer(r"§(\d+(?:\.\d+)*)", text):
        if not any(start <= found.start() < end for start, end in covered):
            page = source if source.startswith("docs/") else "§ without a page"
            yield Citation("page", page, found[1])
    for found in DECISION.finditer(text):
        yield from (Citation("decision", str(int(n))) for n in re.findall(r"\d+", found[0]))
    if source.startswith(ORIGINAL):
        yield from (Citation("path", p) for p in PATH.findall(text) if p.startswith("tests/golden"))
        return
    yield from (Citation("module", name) for name in DOTTED.findall(text) if name not in SERVICES)
    yield from (Citation("path", path) for path in PATH.findall(text))
    if source.endswith(".py"):
        yield from (Citation("module", name) for name in _near(folder, text))
    if source.endswith("/__init__.py") and folder.parts[0] != "tests":
        package = ".".join(folder.parts)
        docstring = text.split('"""')[1] if '"""' in text else ""
        yield from (
            Citation("module", f"{package}.{name}")
            for name in MEMBER.findall(docstring)
            if name not in ELSEWHERE
        )


def _near(folder: Path, text: str) -> Iterator[str]:
    """Yield in full the dotted paths that begin at a module in `folder` or above it."""
    for name in RELATIVE.findall(text):
        first = name.split(".")[0]
        for place in (folder, *folder.parents) if first not in PACKAGES else ():
            here = ROOT / place / first
            if place.name and (here.with_suffix(".py").exists() or here.is_dir()):
                yield ".".join((*place.parts, name))
                break


def fault(one: Citation) -> str:
    """Return what is wrong with a citation, or nothing."""
    match one.kind:
        case "page" | "link":
            return _page_fault(one.target, one.section)
        case "decision":
            there = list((ROOT / "docs" / "adr").glob(f"{int(one.target):04}-*.md"))
            return "" if there else f"no ADR {one.target}"
        case "module":
            return "" if resolves(one.target) else f"no module or name {one.target}"
        case _:
            return _path_fault(one.target)


def _normal(path: Path) -> str:
    """Return a path without `..`, from the repository's root."""
    return (ROOT / path).resolve().relative_to(ROOT.resolve()).as_posix()


def _page_fault(page: str, section: str) -> str:
    if not (ROOT / page).exists():
        return f"no page {page}"
    if not section:
        return ""
    if section.startswith("#"):
        there = re.search(rf"^\| {section[1:]} \|", _text(page), re.MULTILINE)
        return "" if there else f"{page} has no row {section}"
    there = re.search(rf"^#+ (?:§{section}\b|{section}\.? )", _text(page), re.MULTILINE)
    return "" if there else f"{page} has no section {section}"


def _path_fault(cited_path: str) -> str:
    path, _, test = cited_path.partition("::")
    path = re.sub(r":\d+(?:-\d+)?$", "", path)
    if re.search(r"[<>{…]|\.\.\.", path):
        return ""  # a pattern: what stands for the placeholder is not said
    there = list(ROOT.glob(path.rstrip("/"))) if "*" in path else [ROOT / path]
    if not there or not there[0].exists():
        return f"no path {path}"
    name = test.split("[")[0].split("::")[-1]
    return "" if not test or f"def {name}(" in _text(path) else f"{path} has no {test}"


@cache
def _text(path: str) -> str:
    return (ROOT / path).read_text()


def resolves(dotted: str) -> bool:
    """Return whether a dotted path is a module, or a name of one, or of a class of one."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:length])
        names = parts[length:]
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.exists():
                return _has(ast.parse(_text(file.relative_to(ROOT).as_posix())).body, names)
        if place.is_dir():
            return not names
    return False


def _has(body: list[ast.stmt], names: list[str]) -> bool:
    """Return whether statements bind the first name, and its class the next one."""
    if not names:
        return True
    for statement in body:
        if names[0] not in bound(statement):
            continue
        if isinstance(statement, ast.ClassDef) and len(names) > 1:
            own = [*statement.body, *_assigned_to_self(statement)]
            bases = {base.id for base in statement.bases if isinstance(base, ast.Name)}
            inherited = [
                b for a in body if isinstance(a, ast.ClassDef) and a.name in bases for b in a.body
            ]
            return _has([*own, *inherited], names[1:])
        return True
    return False


def _assigned_to_self(statement: ast.ClassDef) -> Iterator[ast.stmt]:
    """Yield `name = ...` for each `self.name = ...` in the methods of a class."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield ast.Assign([ast.Name(node.attr)], ast.Constant(None))


def bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {statement.name}
        case ast.Assign():
            return {n.id for t in statement.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
        case ast.Import() | ast.ImportFrom():
            return {alias.asname or alias.name.split(".")[0] for alias in statement.names}
        case ast.If() | ast.Try():
            return {name for inner in statement.body for name in bound(inner)}
        case _:
            return set()


@pytest.mark.parametrize("source", [source for source in SOURCES if source not in MADE_UP])
def test_citations_lead_somewhere(source: str) -> None:
    found = set(cited(source, (ROOT / source).read_text()))
    assert sorted(filter(None, map(fault, found))) == []


def test_there_are_citations_of_every_kind() -> None:
    found = Counter(
        one.kind
        for source in SOURCES
        if source not in MADE_UP
        for one in cited(source, (ROOT / source).read_text())
    )
    assert {kind: count > 20 for kind, count in found.items()} == dict.fromkeys(
        ("page", "link", "decision", "module", "path"), True
    )


NETCTL, BUILDER = "docs/original/netctl.md", "netplugin.world.builder.WorldBuilder"


@pytest.mark.parametrize(
    ("source", "text", "faults"),
    [
        ("a.py", "As docs/original/none.md says", {"no page docs/original/none.md"}),
        ("a.py", f"({NETCTL} §1, §99)", {f"{NETCTL} has no section 99"}),
        ("a.py", f"`{NETCTL}` §1 and §99", {f"{NETCTL} has no section 99"}),
        (
            "a.py",
            f"# see {NETCTL}\n    # §98-99",
            {f"{NETCTL} has no section {n}" for n in (98, 99)},
        ),
        (
            "a.py",
            "docs/original/user-issues.md #21, #99",
            {"docs/original/user-issues.md has no row #99"},
        ),
        ("a.py", "as docs/original/\nnetctl.md", {"no page broken over a line end"}),
        ("a.py", "what docker is told (§10)", {"no page § without a page"}),
        ("a.py", "RFC 9110 §7.6.1", set()),
        (NETCTL, "see §3, not §30", {f"{NETCTL} has no section 30"}),
        ("docs/x.md", "[a](original/netctl.md) §1 and [b](c.md)", {"no page docs/c.md"}),
        ("docs/original/x.md", "netctl.md §77", {f"{NETCTL} has no section 77"}),
        ("a.py", "ADR 1 and ADR 998, ADRs 2, 3 and 999", {"no ADR 998", "no ADR 999"}),
        ("a.py", "docs/adr/0997", {"no ADR 997"}),
        ("a.py", "`netplugin.no.such`, `netplugin.world`", {"no module or name netplugin.no.such"}),
        ("a.py", "`core.keys.NO_SUCH`", {"no module or name core.keys.NO_SUCH"}),
        ("a.py", f"`{BUILDER}`, `{BUILDER}.nil`", {f"no module or name {BUILDER}.nil"}),
        ("a.py", "`tests/none.py`, `tests/unit/*.py`, `tests/<any>.py`", {"no path tests/none.py"}),
        (
            "netmaster/a.py",
            "`plan.model.Plan`, `plan.none`",
            {"no module or name netmaster.plan.none"},
        ),
        ("objdb/etcd/__init__.py", '"""`channel`, `no`"""', {"no module or name objdb.etcd.no"}),
        ("a.py", f"`{SELF}::test_none`", {f"{SELF} has no test_none"}),
    ],
)
def test_bad_citations_are_found(source: str, text: str, faults: set[str]) -> None:
    assert {*map(fault, cited(source, text))} - {""} == faults
