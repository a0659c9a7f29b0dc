"""Tags by which docker's users name networks and groups, of all tenants in one name space. Pure.

A network or group without a tag of its own (`cfgdTag`) has `<name>.<tenant>`. In comes a tag that
is asked for; out comes nothing, or the refusal of one that is another tenant's to give.
"""

from contivmodel.objects import Tenant
from core.errors import Conflict
from netmaster.view import View


def check(view: View, kind: str, asked: str, tenant: str) -> None:
    """Refuse a tag that another tenant's networks and groups have without asking, or has one now.

    `kind` is that of the object which is to have it, "group" or "network". Raises Conflict.
    """
    if not asked or asked.endswith(f".{tenant}"):
        return
    others = (other for other in view.objects[Tenant.kind] if other != tenant)
    if any(asked.endswith(f".{other}") for other in others):
        raise Conflict(f"{kind} tag {asked} is reserved: it ends as another tenant's tags do")
    network, group = view.network_tags.get(asked), view.group_tags.get(asked)
    holders = {
        *([view.networks[network].tenant] if network else ()),
        *([view.groups[group].tenant] if group else ()),
    }
    if holders - {tenant}:
        # whose it is, is nothing that another tenant's operator may learn
        raise Conflict(f"{kind} tag {asked} is in use")
