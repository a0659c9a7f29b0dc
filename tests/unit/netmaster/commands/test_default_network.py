"""The words by which `netmaster default-network` makes its network."""

import pytest

from core.errors import UsageError
from netmaster.commands import default_network


def test_settings_that_are_missing_are_named() -> None:
    with pytest.raises(UsageError, match="POD_SUBNET, POD_GATEWAY must be set"):
        default_network.network_words({"CONTIV_NETMASTER_NET_MODE": "vlan"})
