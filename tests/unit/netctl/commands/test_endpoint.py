"""`netctl endpoint`."""

import pytest

from tests.unit.netctl.master import Netctl


@pytest.mark.parametrize("name", ["endpoint", "ep"])
def test_inspect_prints_all_but_the_echoed_id(name: str, netctl: Netctl) -> None:
    netctl.master.inspected["endpoints", "ep1"] = {
        "Oper": {"key": "ep1", "ipAddress": ["10.1.1.1", ""]}
    }
    done = netctl(name, "inspect", "ep1")
    assert done.out == (
        '{\n  "Oper": {\n    "ipAddress": [\n      "10.1.1.1",\n      ""\n    ]\n  }\n}\n'
    )


@pytest.mark.parametrize("words", [[], ["a", "b"]])
def test_one_id_is_required(words: list[str], netctl: Netctl) -> None:
    done = netctl("endpoint", "inspect", *words)
    assert (done.code, done.message) == (1, '"Endpoint name required"')
