"""The settings of the ACI gateway."""

from contivmodel.objects import AciGw, AppProfile
from netmaster.plan.objects import aci_gateway, app_profile
from netmaster.plan.show import inspect
from tests.unit.netmaster.scene import Scene

GATEWAY = AciGw(
    name="aciGw", physical_domain="dom", enforce_policies="yes", include_common_tenant="no"
)


def test_settings_are_replaced_as_a_whole() -> None:
    scene = Scene()
    reply = scene.do(aci_gateway.create, GATEWAY.model_copy(update={"node_bindings": "n"}))
    assert reply == scene.view.read("aciGw", "aciGw")
    assert scene.do(aci_gateway.update, GATEWAY).node_bindings == ""
    assert aci_gateway.update(scene.view, GATEWAY).writes == ()


def test_settings_stay_while_there_are_profiles() -> None:
    scene = Scene()
    assert scene.refused(aci_gateway.delete, "aciGw") == "aciGw not found"
    assert scene.refused(inspect.aci_gateway, "aciGw") == "aciGw not found"
    scene.do(aci_gateway.create, GATEWAY)
    scene.do(app_profile.create, AppProfile(tenant_name="default", app_profile_name="a"))
    assert inspect.aci_gateway(scene.view, "aciGw") == {"numAppProfiles": 1}
    refusal = scene.refused(aci_gateway.delete, "aciGw")
    assert refusal == "1 App-Profiles found. Delete them first"
    scene.do(app_profile.delete, "default:a")
    assert scene.do(aci_gateway.delete, "aciGw") == "aciGw"
