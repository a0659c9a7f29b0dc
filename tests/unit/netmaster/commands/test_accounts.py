"""Accounts by the command line: the store in, the store out."""

import io

import pytest

from core.errors import ContivError, Invalid, NotFound, UsageError
from daemons import flags
from daemons.certificates.peers import Role
from netmaster.auth.accounts import StoredAccounts
from netmaster.auth.passwords import Passwords
from netmaster.commands.accounts import COMMANDS
from objdb.memory import MemoryBackend

PASSWORD = "correct horse"


@pytest.fixture
def backend() -> MemoryBackend:
    return MemoryBackend()


@pytest.fixture(autouse=True)
def typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n" * 2))


async def run(backend: MemoryBackend, word: str, *arguments: str) -> None:
    command, known = COMMANDS[word]
    values = flags.read("netmaster", known, arguments, {}, "1")
    assert values is not None
    await command(backend, values)


async def matches(password_hash: str) -> bool:
    passwords = Passwords()
    try:
        return await passwords.verify(password_hash, PASSWORD)
    finally:
        passwords.close()


async def test_the_first_administrator(backend: MemoryBackend) -> None:
    await run(backend, "set-user", "--name=root", "--role=admin")
    root = await StoredAccounts(backend).user("root")
    assert root is not None
    assert (root.role, root.tenants, root.disabled) == (Role.ADMIN, frozenset(), False)
    assert await matches(root.password_hash)


async def test_a_user_is_replaced_and_its_tokens_end(
    backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    joe = ("set-user", "--name=joe", "--role=operator")
    await run(backend, *joe, "--tenant=blue", "--tenant=green")
    first = await StoredAccounts(backend).user("joe")
    monkeypatch.setattr("sys.stdin", io.StringIO("another password"))
    await run(backend, *joe, "--tenant=blue", "--disabled")
    second = await StoredAccounts(backend).user("joe")
    assert first is not None
    assert second is not None
    assert (first.tenants, first.disabled) == (frozenset({"blue", "green"}), False)
    assert (second.tenants, second.disabled) == (frozenset({"blue"}), True)
    assert second.tokens_from >= first.tokens_from > 1_700_000_000
    assert not await matches(second.password_hash)


async def test_users_are_listed_and_removed(
    backend: MemoryBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    await run(backend, "set-user", "--name=root", "--role=admin")
    await run(backend, "set-user", "--name=joe", "--role=operator", "--tenant=b", "--tenant=a")
    await run(backend, "list-users")
    assert capsys.readouterr().out == ("joe\toperator\ta,b\tenabled\nroot\tadmin\t-\tenabled\n")
    await run(backend, "remove-user", "--name=joe")
    await run(backend, "list-users")
    assert capsys.readouterr().out == "root\tadmin\t-\tenabled\n"
    with pytest.raises(NotFound, match="user joe not found"):
        await run(backend, "remove-user", "--name=joe")


async def test_keys_are_rotated(backend: MemoryBackend) -> None:
    before = await StoredAccounts(backend).token_keys()
    await run(backend, "rotate-token-keys")
    after = await StoredAccounts(backend).token_keys()
    assert after.previous == before.current


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (("set-user", "--role=admin"), UsageError, "name the user with --name"),
        (("remove-user",), UsageError, "name the user with --name"),
        (("set-user", "--name=a"), UsageError, "--role is one of admin, operator, reader"),
        (("set-user", "--name=a", "--role=agent"), UsageError, "--role is one of"),
        (("set-user", "--name=a/b", "--role=admin"), Invalid, "user name 'a/b'"),
        (("set-user", "--name=a", "--role=reader", "--tenant=b"), Invalid, "is for all tenants"),
    ],
)
async def test_a_wrong_command_line_changes_nothing(
    backend: MemoryBackend, arguments: tuple[str, ...], error: type[ContivError], said: str
) -> None:
    with pytest.raises(error, match=said):
        await run(backend, *arguments)
    assert await StoredAccounts(backend).all_users() == []


async def test_an_empty_password_is_refused(
    backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(Invalid, match="at least 8 characters"):
        await run(backend, "set-user", "--name=root", "--role=admin")
