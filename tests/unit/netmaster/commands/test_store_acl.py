"""The command line of `netmaster store-acl`; the rights themselves are tested on real stores."""

import pytest

from core import keys
from core.errors import UsageError
from netmaster.commands import dispatch
from netmaster.commands.store_acl import AGENT_READS


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    dispatch.COMMANDS["store-acl"](words, {})
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("host", [["--host", "h1=192.0.2.1"], ["-host=h1=192.0.2.1"]])
def test_etcds_commands_name_the_keys_of_each_host(
    host: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(capsys, "etcd", *host, "--host", "h2=192.0.2.2,10.0.0.2")
    grant = "etcdctl role grant-permission"
    assert f"{grant} contiv-master --prefix=true readwrite /contiv.io/" in lines
    assert f"{grant} contiv-agent-h1 readwrite /contiv.io/host/h1" in lines
    service = "--prefix=true readwrite /contiv.io/service/netplugin"
    assert f"{grant} contiv-agent-h2 {service}/10.0.0.2:" in lines
    assert f"{grant} contiv-agent-h2 {service}/192.0.2.2:" in lines
    assert not [line for line in lines if "agent-h1" in line and "192.0.2.2" in line]


def test_consuls_policies_are_commands_with_rules(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "consul", "--host", "h1=192.0.2.1")
    assert "consul acl policy create -name contiv-agent-h1 -rules - <<'END'" in lines
    assert 'key "contiv.io/host/h1" { policy = "write" }' in lines
    assert "consul acl token create -policy-name contiv-agent-h1" in lines


def test_agents_read_no_accounts() -> None:
    assert not [prefix for prefix in AGENT_READS if keys.AUTH.startswith(prefix)]


@pytest.mark.parametrize(
    "words",
    [
        *([], ["zookeeper"], ["etcd", "--host"], ["etcd", "--host", "h1"], ["etcd", "h1=a"]),
        *(["etcd", "--host", "h1="], ["etcd", "--host", "a/b=c"], ["etcd", "--host=h1/=c"]),
    ],
)
def test_wrong_words_are_a_usage_error(words: list[str]) -> None:
    with pytest.raises(UsageError, match=r"netmaster store-acl etcd\|consul"):
        dispatch.COMMANDS["store-acl"](words, {})
