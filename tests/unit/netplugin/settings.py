"""What tests of settings share."""

from daemons import flags
from netplugin.settings import FLAGS, AgentSettings, resolve


def settings_of(arguments: list[str], environ: dict[str, str] | None = None) -> AgentSettings:
    values = flags.read("netplugin", FLAGS, arguments, environ or {}, "1.2.3")
    assert values is not None
    return resolve(values, lambda: "192.0.2.7")
