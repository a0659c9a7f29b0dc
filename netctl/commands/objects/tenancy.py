"""The commands that are the same for kinds of objects of a tenant: ls, inspect, set, rm."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from netctl.commandline import Callback, Command, misuse
from netctl.commands import flags
from netctl.connection import MasterConnection
from netctl.render import Json, ListFormat

if TYPE_CHECKING:
    from contivmodel.client_sync import RestClient


def list_of_tenant(
    client: "RestClient", plural: str, tenant: str, *, all_items: bool
) -> list[Json]:
    """Return the objects of a tenant, or of all tenants; the tenant must exist in both cases."""
    client.read("tenants", tenant)
    found = client.list_all(plural)
    return found if all_items else [f for f in found if f.get("tenantName") == tenant]


@dataclass(frozen=True, slots=True)
class TenantResource:
    """A kind of object that belongs to a tenant.

    `plural` is its name in REST paths, `word` the positional word with an object's name,
    `name_required` the message if that word is missing. `state` returns the fields that the wide
    table shows of an object's operational state.
    """

    plural: str
    word: str
    name_required: str
    list_format: ListFormat
    state: Callable[[Json], Json] | None = None

    def lister(self, help_text: str) -> click.Command:
        """Return the command `ls`."""

        @click.command("ls", cls=Command, help=help_text)
        @flags.tenant
        @flags.all_items
        @flags.listing
        @click.pass_obj
        def ls(master: MasterConnection, tenant: str, *, all_items: bool) -> None:
            client = master.client()
            found = list_of_tenant(client, self.plural, tenant, all_items=all_items)
            if self.state is not None and master.output.form == "wide":
                found = [{**one, **self._state_of(client, one)} for one in found]
            master.show_list(found, self.list_format)

        return ls

    def inspector(self, help_text: str) -> click.Command:
        """Return the command `inspect`."""

        @self._named("inspect", help_text)
        @flags.tenant
        @flags.inspection
        @click.pass_obj
        def inspect(master: MasterConnection, /, tenant: str, **words: str) -> None:
            found = master.client().inspect(self.plural, _key(tenant, words))
            master.show_object(found)

        return inspect

    def remover(self, help_text: str, *, saying: str = "") -> click.Command:
        """Return the command `rm`; it prints `saying`, if given, and the object's key."""

        @self._named("rm", help_text)
        @flags.tenant
        @flags.what_if
        @click.pass_obj
        def remove(master: MasterConnection, /, tenant: str, **words: str) -> None:
            key = _key(tenant, words)
            if saying:
                master.say(f"{saying} {key}")
            master.client().delete(self.plural, key)

        return remove

    def excluder(self, help_text: str) -> click.Command:
        """Return the command `set`, which changes what an object excludes."""

        @self._named("set", help_text)
        @flags.tenant
        @flags.exclude
        @flags.what_if
        @click.pass_obj
        def change(
            master: MasterConnection, /, tenant: str, exclude: tuple[str, ...], **words: str
        ) -> None:
            if not exclude:
                raise misuse("Nothing to set: name --exclude, or --exclude= for nothing")
            key = _key(tenant, words)
            ranges = [one for one in exclude if one]
            master.client().change(self.plural, key, {"exclude": ranges})
            if ranges:
                master.say(
                    f"Excluding {', '.join(ranges)} from {key}; what of it is in use stays so, "
                    "netctl ipam check lists it"
                )
            else:
                master.say(f"Excluding nothing from {key}")

        return change

    def _state_of(self, client: "RestClient", found: Json) -> Json:
        oper = client.inspect(self.plural, str(found["key"])).get("Oper", {})
        return self.state(oper) if self.state is not None else {}

    def _named(self, name: str, help_text: str) -> Callable[[Callback], click.Command]:
        return click.command(
            name,
            cls=Command,
            help=help_text,
            words=(self.word,),
            wrong_words=self.name_required,
        )


def _key(tenant: str, words: Mapping[str, str]) -> str:
    """Return an object's key from its tenant and the one word that names it."""
    (name,) = words.values()
    return f"{tenant}:{name}"
