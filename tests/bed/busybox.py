"""A container image of one program, made without a registry: Debian's static busybox.

In comes a path; out comes a docker archive there, which `ctr images import` reads. A container of
it does nothing and waits, as Kubernetes' pause image does.
"""

import hashlib
import io
import json
import platform
import shutil
import tarfile
from pathlib import Path

PAUSE = ["/bin/busybox", "sleep", "2147483647"]
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write_image(path: Path, reference: str) -> None:
    """Write the image under a name (`name:tag`)."""
    program = shutil.which("busybox")
    if program is None:
        raise FileNotFoundError("no busybox: run scripts/setup, which installs busybox-static")
    layer = _archive({"bin/busybox": Path(program).read_bytes()})
    digest = hashlib.sha256(layer).hexdigest()
    machine = platform.machine()
    config = {
        "architecture": _ARCHITECTURES.get(machine, machine),
        "os": "linux",
        "config": {"Cmd": PAUSE, "Env": ["PATH=/bin"], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [reference], "Layers": ["layer.tar"]}]
    files = {"config.json": config, "manifest.json": manifest}
    encoded = {name: json.dumps(value).encode() for name, value in files.items()}
    path.write_bytes(_archive(encoded | {"layer.tar": layer}))


def _archive(files: dict[str, bytes]) -> bytes:
    """Return a tar archive of files that everybody may execute."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755
            tar.addfile(info, io.BytesIO(content))
    return archive.getvalue()
