"""netmaster's addresses and store by the older rules (docs/original/netmaster-daemon.md §1)."""

import pytest

from core.errors import UsageError
from daemons import flags
from daemons.listen_address import ListenAddress
from netmaster.settings import FLAGS, MasterSettings, resolve
from objdb.connect import StoreAddress, StoreKind

STORE = "--cluster-store=etcd://10.0.0.1:2379"
HOST = "192.0.2.7"


def resolved(*arguments: str) -> MasterSettings:
    """Return what a command line of the older generation means."""
    values = flags.read("netmaster", FLAGS, [STORE, *arguments], {}, "1")
    assert values is not None
    return resolve(values, lambda: HOST)


def test_nothing_but_the_store_is_needed() -> None:
    settings = resolved()
    assert settings.store == StoreAddress(StoreKind.ETCD, ("10.0.0.1:2379",), secure=False)
    assert (settings.mode, settings.net_mode, settings.fwd_mode) == ("docker", "", "")


@pytest.mark.parametrize(
    ("listen", "control", "external", "internal"),
    [
        (":9999", ":9999", ListenAddress("", 9999), ListenAddress(HOST, 9999)),
        (":8888", ":9999", ListenAddress("", 8888), ListenAddress(HOST, 8888)),
        (
            "10.1.1.1:9999",
            ":9999",
            ListenAddress("10.1.1.1", 9999),
            ListenAddress("10.1.1.1", 9999),
        ),
        ("10.1.1.1:8888", ":9999", ListenAddress("10.1.1.1", 8888), ListenAddress(HOST, 8888)),
        ("0.0.0.0:9999", ":9999", ListenAddress("0.0.0.0", 9999), ListenAddress(HOST, 9999)),
        (":8888", "10.1.1.1:7777", ListenAddress("", 8888), ListenAddress("10.1.1.1", 7777)),
    ],
)
def test_addresses(
    listen: str, control: str, external: ListenAddress, internal: ListenAddress
) -> None:
    settings = resolved("-listen-url", listen, "-control-url", control)
    assert (settings.external, settings.internal) == (external, internal)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("-listen-url", "9999"), "Listen URL not in proper format. Valid format: [IP]:Port"),
        (("-listen-url", "::1:80"), "Listen URL not in proper format. Valid format: [IP]:Port"),
        (
            ("-listen-url", ":x"),
            ('Listen URL port not in valid format. Err: strconv.Atoi: parsing "x": invalid syntax'),
        ),
        (("-control-url", "9999"), "Control URL not in proper format. Valid format: IP:Port"),
        (("-control-url", ":9998"), "Control URL not in proper format. Valid format: IP:Port"),
        (
            ("-control-url", "0.0.0.0:9999"),
            "Control URL not in proper format. Valid format: IP:Port",
        ),
        (
            ("-control-url", "10.1.1.1:"),
            'Control URL port not in valid format. Err: strconv.Atoi: parsing "": invalid syntax',
        ),
        (("-cluster-mode", "mesos"), "unknown netmaster mode: mesos"),
        (("-cluster-store", "127.0.0.1:2379"), 'Invalid state-store URL "127.0.0.1:2379"'),
        (("-cluster-store", "zk://127.0.0.1:2379"), 'Unsupported state-store "zk"'),
        (
            ("--etcd", "http://x:1"),
            (
                "ambiguous netmaster db endpoints, both cluster-store and another specified: "
                "cluster-store: etcd://10.0.0.1:2379, etcd: http://x:1, consul: "
            ),
        ),
    ],
)
def test_a_wrong_flag_is_named(arguments: tuple[str, ...], text: str) -> None:
    with pytest.raises(UsageError) as refusal:
        resolved(*arguments)
    assert str(refusal.value) == text
