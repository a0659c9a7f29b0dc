"""`/services` and `/service/{id}`: service records with their providers.

The shape is the stored record's (CfgServiceLBState); the list of providers is derived here.
"""

import json
from typing import Any

from core.errors import NotFound
from core.ids import ServiceKey
from netmaster.view import View
from state import codec, service_providers
from state.records import ServiceRecord


def all_services(view: View) -> list[dict[str, Any]]:
    """Return every service, ordered by id."""
    serving = {key: view.providers(record) for key, record in view.services.items()}
    served: dict[str, list[ServiceKey]] = {}
    for key in sorted(serving):
        for one in serving[key]:
            served.setdefault(one.endpoint.key, []).append(key)
    return [
        _shown(
            view.services[key],
            {
                one.provider_id: service_providers.provider_fields(one, served[one.endpoint.key])
                for one in serving[key]
            },
        )
        for key in sorted(serving)
    ]


def one_service(view: View, key: str) -> list[dict[str, Any]]:
    """Return one service, alone in a list."""
    record = view.services.get(ServiceKey(key))
    if record is None:
        raise NotFound(f"service {key} not found")
    known = view.services.values()
    providers = {
        one.provider_id: service_providers.provider_fields(
            one, service_providers.services_of(one, known)
        )
        for one in view.providers(record)
    }
    return [_shown(record, providers)]


def _shown(record: ServiceRecord, providers: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(codec.encode(record))
    return {**fields, "providers": providers}
