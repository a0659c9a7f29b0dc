"""Volumes: asked for, never created."""

from contivmodel.volume_objects import Volume, VolumeProfile
from netmaster.plan.objects import volume
from tests.unit.netmaster.scene import Scene


def test_none_is_ever_created() -> None:
    scene = Scene()
    assert scene.refused(volume.create, Volume(volume_name="v")) == "Invalid object type"
    assert scene.refused(volume.create, VolumeProfile()) == "Invalid object type"
    assert scene.refused(volume.delete_volume, "default:v") == "volume not found"
    assert scene.refused(volume.delete_profile, "default:v") == "volumeProfile not found"
