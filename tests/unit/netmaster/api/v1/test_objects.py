"""Bodies become decisions, and what is stored becomes answers."""

import pytest

from contivmodel.objects import Global, Network, Tenant
from contivmodel.wire import dumps
from core.errors import Conflict, Invalid, NotFound
from netmaster.api.leader.state_text import EndpointTexts, inspection
from netmaster.api.v1 import objects
from netmaster.api.v1.objects import OBJECT_CLASSES
from netmaster.plan.objects.globals import StartupFlags, startup
from netmaster.view import View

BODY = b'{"tenantName":"t","networkName":"n","encap":"vxlan","subnet":"10.1.0.0/24"}'


@pytest.fixture
def view() -> View:
    """Hold the global object and a tenant."""
    view = View()
    view.apply(startup(view, StartupFlags(fwd_mode="routing", infra_type="default")).writes)
    view.apply(objects.write(OBJECT_CLASSES["tenants"], "t", b'{"tenantName":"t"}')(view).writes)
    return view


def test_every_kind_is_found_by_its_plural() -> None:
    assert {plural: kind.model.kind for plural, kind in OBJECT_CLASSES.items()} == {
        "Bgps": "Bgp",
        "aciGws": "aciGw",
        "appProfiles": "appProfile",
        "endpointGroups": "endpointGroup",
        "extContractsGroups": "extContractsGroup",
        "globals": "global",
        "netprofiles": "netprofile",
        "networks": "network",
        "policys": "policy",
        "rules": "rule",
        "serviceLBs": "serviceLB",
        "tenants": "tenant",
        "volumeProfiles": "volumeProfile",
        "volumes": "volume",
    }


def test_what_does_not_exist_is_created_and_what_does_is_updated(view: View) -> None:
    decide = objects.write(OBJECT_CLASSES["networks"], "t:n", BODY)
    plan = decide(view)
    assert isinstance(plan.reply, Network)
    view.apply(plan.writes)
    with pytest.raises(Conflict, match="Cant change network parameters"):
        decide(view)


@pytest.mark.parametrize(
    ("key", "body", "text"),
    [
        ("t:n", b"{", "unexpected EOF"),
        ("t:m", BODY, "Invalid Key"),
        ("t:n", BODY.replace(b"vxlan", b"gre"), "encap string invalid format"),
    ],
)
def test_a_bad_body_is_refused_before_anything_is_decided(key: str, body: bytes, text: str) -> None:
    with pytest.raises(Invalid, match=text):
        objects.write(OBJECT_CLASSES["networks"], key, body)


def test_stored_objects_are_read_with_their_links(view: View) -> None:
    view.apply(objects.write(OBJECT_CLASSES["networks"], "t:n", BODY)(view).writes)
    tenant = objects.stored(view, OBJECT_CLASSES["tenants"], "t")
    assert isinstance(tenant, Tenant)
    assert list(tenant.link_sets.networks) == ["t:n"]
    assert objects.listed(view, OBJECT_CLASSES["tenants"]) == dumps([tenant]) + b"\n"
    with pytest.raises(NotFound, match=r"^network not found$"):
        objects.stored(view, OBJECT_CLASSES["networks"], "t:m")


def test_inspection_shows_object_and_state_and_the_mode_of_the_cluster(view: View) -> None:
    found = objects.inspected(view, OBJECT_CLASSES["globals"], "global", "kubernetes")
    assert isinstance(found["Config"], Global)
    assert {one: value for one, value in found["Oper"].items() if value} == {
        "clusterMode": "kubernetes"
    }
    shown = objects.inspected(view, OBJECT_CLASSES["tenants"], "t", "x")
    assert inspection(shown, EndpointTexts()) == (
        b'{"Config":{"key":"t","tenantName":"t","link-sets":{}},"Oper":{}}'
    )
