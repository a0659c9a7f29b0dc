"""Engines of the bed ask the agent for names, with every docker."""

import pytest

from tests.bed.engines import NAME_SERVER, named_servers


@pytest.mark.parametrize(
    ("said", "flags"),
    [
        ("Docker version 20.10.24+dfsg1, build 297e128\n", ()),
        ("Docker version 26.1.5+dfsg1, build a72d7cd\n", ("--dns", NAME_SERVER)),
        ("Docker version 28.5.2+dfsg4, build ecc6942\n", ("--dns", NAME_SERVER)),
        ("Docker version 100.0.0\n", ("--dns", NAME_SERVER)),
        ("?", ()),
    ],
)
def test_servers_are_named_to_a_docker_that_asks_as_the_host(
    said: str, flags: tuple[str, ...]
) -> None:
    assert named_servers(said) == flags
