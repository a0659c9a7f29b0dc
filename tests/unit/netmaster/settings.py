"""What tests of settings share."""

from daemons import flags
from netmaster.settings import FLAGS, MasterSettings, resolve

GOOD = {"mode": "kubernetes", "netmode": "vxlan", "fwdmode": "routing"}


def settings_of(arguments: list[str], environ: dict[str, str] | None = None) -> MasterSettings:
    values = flags.read("netmaster", FLAGS, arguments, environ or {}, "1.2.3")
    assert values is not None
    return resolve(values, lambda: "192.0.2.7")


def resolved(**changes: str) -> MasterSettings:
    given = {**GOOD, **{name.replace("_", "-"): value for name, value in changes.items()}}
    return settings_of([f"--{name}={value}" for name, value in given.items()])
