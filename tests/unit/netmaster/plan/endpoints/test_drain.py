"""Drained hosts: no new endpoints, the old ones stay."""

from core.ids import HostLabel
from netmaster.plan.endpoints import drain, endpoint
from tests.unit.netmaster.scene import NOW, Scene, wanted

H1 = HostLabel("h1")


def test_a_drained_host_gets_no_new_endpoint_and_keeps_its_own() -> None:
    scene = Scene()
    scene.network("n1")
    kept = scene.endpoint("old")
    scene.do(drain.drain, H1, NOW)
    scene.reload()
    assert scene.refused(endpoint.create, wanted("new"), NOW) == (
        "host h1 is drained and takes no new endpoints; netctl host drain h1 --undo ends that"
    )
    assert scene.endpoint("old") == kept
    scene.delete_endpoint("old")
    scene.do(drain.undo, H1)
    assert scene.endpoint("new").homing_host == H1


def test_a_running_pod_of_a_drained_host_is_claimed() -> None:
    scene = Scene()
    scene.network("n1")
    scene.do(drain.drain, H1, NOW)
    claim = wanted("running", ip_address="10.1.1.9")
    assert scene.refused(endpoint.create, claim, NOW).startswith("host h1 is drained")
    claim = claim.model_copy(update={"claim": "true"})
    assert scene.do(endpoint.create, claim, NOW).ip_address == "10.1.1.9"


def test_asked_twice_it_changes_nothing() -> None:
    scene = Scene()
    scene.do(drain.drain, H1, NOW)
    assert drain.drain(scene.view, H1, NOW + 1).writes == ()
    scene.do(drain.undo, H1)
    assert drain.undo(scene.view, H1).writes == ()
