"""`netctl external-contracts`."""

import pytest

from tests.unit.netctl.master import Netctl


def test_ls_has_gaps_around_the_type(netctl: Netctl) -> None:
    netctl.master.add(
        "extContractsGroups",
        {
            "key": "default:e1",
            "contracts": ["uni/c1", "uni/c2"],
            "contractsGroupName": "e1",
            "contractsType": "provided",
            "tenantName": "default",
        },
    )
    assert netctl("external-contracts", "ls").out == (
        "Tenant   Name      Type        Contracts\n"
        "------   ------    ------      -------\n"
        "default  e1        provided  [uni/c1 uni/c2]\n"
    )
    assert netctl("external-contracts", "list", "-q").out == "e1\n"


@pytest.mark.parametrize(
    ("flag", "kind"), [("-c", "consumed"), ("--provided", "provided"), ("-p", "provided")]
)
def test_create_sends_kind_and_contracts(flag: str, kind: str, netctl: Netctl) -> None:
    done = netctl("external-contracts", "create", flag, "-a", "c1", "--contract=c2", "e1")
    assert (done.code, done.out) == (0, "Creating ExternalContracts default:e1\n")
    assert netctl.master.written == [
        (
            "extContractsGroups",
            "default:e1",
            {
                "tenantName": "default",
                "contractsGroupName": "e1",
                "contractsType": kind,
                "contracts": ("c1", "c2"),
            },
        )
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-c -p -a x", "Cannot use both provided and consumed"),
        ("-a x", "Either provided or consumed must be specified"),
        ("-c=false -a x", "Either provided or consumed must be specified"),
        ("-c", "Contracts not provided"),
    ],
)
def test_create_checks_before_it_asks(words: str, message: str, netctl: Netctl) -> None:
    done = netctl("external-contracts", "create", "e1", *words.split())
    assert (done.code, done.out, done.message) == (1, "", f'"{message}"')
    assert netctl.master.written == []


@pytest.mark.parametrize("verb", ["rm", "delete"])
def test_rm_says_so_before_it_asks(verb: str, netctl: Netctl) -> None:
    netctl.master.refusal = "External contracts group is in-use\n"
    done = netctl("external-contracts", verb, "e1")
    assert done.code == 3
    assert done.out == "Deleting external contracts group e1 in tenant default\n"


@pytest.mark.parametrize("verb", ["create", "rm"])
@pytest.mark.parametrize("names", [[], ["a", "b"], [""]])
def test_one_name_is_required(verb: str, names: list[str], netctl: Netctl) -> None:
    done = netctl("external-contracts", verb, *names)
    assert (done.code, done.message) == (1, '"Contracts group name required"')
    assert (netctl.master.written, netctl.master.deleted) == ([], [])
