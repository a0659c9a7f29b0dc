"""Netlink messages are freed without the garbage collector."""

import gc
import weakref
from collections.abc import Iterator

import pytest
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from netplugin.kernel.netlink.acyclic_messages import free_messages_at_once
from netplugin.kernel.netlink.requests import veth


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    free_messages_at_once()
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_a_request_leaves_no_garbage() -> None:
    veth("vport1", "eth0", 3, 1450)  # classes keep what they compute of themselves once
    gc.collect()
    veth("vport1", "eth0", 3, 1450)
    assert gc.collect() == 0


def test_a_message_that_was_read_is_freed() -> None:
    message = ifinfmsg(veth("vport1", "eth0", 3, 1450))
    message.decode()
    assert message.get_attr("IFLA_IFNAME") == "vport1"
    assert message[0] is message
    freed = weakref.ref(message)
    del message
    assert freed() is None


def test_a_chain_of_several_is_kept() -> None:
    first, second = ifinfmsg(), ifinfmsg()
    first.chain = [first, second]
    assert first[1] is second
