"""A container image without a registry: one layer with a static busybox, as `docker load` reads it.

Out comes a file; `tests.bed.engines` loads it into each engine.
"""

import hashlib
import io
import json
import tarfile
from pathlib import Path

IMAGE = "contiv.test/busybox:1"
BUSYBOX = Path("/bin/busybox")
APPLETS = (
    "sh",
    "ping",
    "ping6",
    "sleep",
    "true",
    "cat",
    "nc",
    "ip",
    "nslookup",
    "seq",
    "tail",
    "head",
    "printf",
)


def write_image(path: Path) -> None:
    """Write the image to a file."""
    layer = _layer()
    layer_id = hashlib.sha256(layer).hexdigest()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": ["PATH=/bin"], "Cmd": ["sleep", "3600"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_id}"]},
        }
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    layer_name = f"{layer_id}/layer.tar"
    manifest = [{"Config": config_name, "RepoTags": [IMAGE], "Layers": [layer_name]}]
    parts = {
        config_name: config,
        layer_name: layer,
        "manifest.json": json.dumps(manifest).encode(),
    }
    with tarfile.open(path, "w") as archive:
        for name, data in parts.items():
            _add(archive, name, data)


def _layer() -> bytes:
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        _add(archive, "bin/busybox", BUSYBOX.read_bytes(), mode=0o755)
        for applet in APPLETS:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
        for folder in ("tmp", "etc"):
            made = tarfile.TarInfo(folder)
            made.type, made.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(made)
    return layer.getvalue()


def _add(archive: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    archive.addfile(info, io.BytesIO(data))
