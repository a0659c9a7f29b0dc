"""Beds whose parts ask something of the others: a consul with tokens.

In comes a directory; out comes a bed for `tests.breaks.breakable_cluster`.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from tests.bed.cluster import STORE_PORT, Bed
from tests.bed.daemon import Daemon
from tests.bed.hosts import FABRIC_ADDRESS, Host
from tests.bed.secured import ROOT_TOKEN, TOKEN, SecuredConsul

RULES: Final = """
key_prefix "contiv.io/" { policy = "write" }
session_prefix "" { policy = "write" }
node_prefix "" { policy = "read" }
service "contiv-lease" { policy = "write" }
"""
"""What the daemons' token needs, as docs/flags.md says."""
POLICY: Final = "contiv"
_IDENTITY: Final = ("env", f"CONSUL_HTTP_TOKEN={TOKEN}")


class TokenBed(Bed):
    """A cluster on a consul that asks for a token."""

    def new_store(self) -> SecuredConsul:
        """Make the store, with the token of the daemons."""
        tokens = {"master": ROOT_TOKEN, "agent": ROOT_TOKEN}
        acl = {"enabled": True, "default_policy": "deny", "tokens": tokens}
        consul = SecuredConsul(
            self.dir,
            self.fabric.namespace,
            FABRIC_ADDRESS,
            STORE_PORT,
            settings={"acl": acl},
            token=ROOT_TOKEN,
        )
        consul.start()
        consul.request("PUT", "/v1/acl/policy", {"Name": POLICY, "Rules": RULES})
        give_token(consul)
        consul.stop()
        return consul

    def _netmaster_command(self, internal: str) -> list[str]:
        return [*_IDENTITY, *super()._netmaster_command(internal)]

    def _agent(self, host: Host) -> Daemon:
        agent = super()._agent(host)
        agent.command[:0] = _IDENTITY
        return agent


def give_token(consul: SecuredConsul) -> None:
    """Have the daemons' token known."""
    policies = [{"Name": POLICY}]
    consul.request("PUT", "/v1/acl/token", {"SecretID": TOKEN, "Policies": policies})


def take_token(consul: SecuredConsul) -> None:
    """Have nobody know the daemons' token any more."""
    _, _, answer = consul.request("GET", "/v1/acl/tokens")
    (own,) = filter(_of_daemons, json.loads(answer))
    consul.request("DELETE", f"/v1/acl/token/{own['AccessorID']}")


def _of_daemons(token: Mapping[str, Any]) -> bool:
    return any(one["Name"] == POLICY for one in token.get("Policies") or ())
