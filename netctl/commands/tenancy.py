"""Lists of what belongs to a tenant, for the commands that have `--tenant` and `--all`."""

from contivmodel.client_sync import Json, RestClient


def of_tenant(client: RestClient, plural: str, tenant: str, *, all_items: bool) -> list[Json]:
    """Return the objects of a tenant, or of all tenants; the tenant must exist in either case."""
    client.read("tenants", tenant)
    found = client.list_all(plural)
    return found if all_items else [f for f in found if f.get("tenantName") == tenant]
