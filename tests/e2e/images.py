"""Images for the cluster's pods, made without a registry: tars as `docker save` writes them.

In come Debian's two busyboxes; out come an image with the programs of the static one, one that only
waits, for the sandboxes of pods, and one in the place of the public image of busybox.
"""

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

BUSYBOX = Path("/bin/busybox")
LIBRARIES = (
    Path("/lib64/ld-linux-x86-64.so.2"),
    *(Path("/lib/x86_64-linux-gnu") / name for name in ("libc.so.6", "libresolv.so.2")),
)
"""Of the busybox that is no static one: the static one cannot look names up."""
PAUSE = "local.test/pause:1"
TOOLS = "local.test/tools:1"
PUBLIC = "docker.io/library/busybox:1.36"
"""The image that the document names."""
APPLETS = (
    *("sh", "sleep", "nc", "httpd", "hostname", "cat", "ping", "ip", "echo", "true", "nslookup"),
    *("mkdir", "timeout", "seq", "test", "env", "sed", "grep", "dd", "wc", "tr", "head", "wget"),
)


def dynamic_busybox(directory: Path) -> Path:
    """Fetch the package that cannot be installed beside the static one; return its program."""
    get = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", "busybox"]
    subprocess.run(get, cwd=directory, check=True)
    (package,) = directory.glob("busybox_*.deb")
    subprocess.run(["dpkg-deb", "--extract", package, directory / "busybox"], check=True)
    return directory / "busybox" / "bin" / "busybox"


def layer(busybox: Path = BUSYBOX) -> bytes:
    """Return the file system: a busybox, links to it, and its libraries."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        folders = sorted({str(path.parent)[1:] for path in LIBRARIES})
        for name in ("bin", "etc", "proc", "sys", "dev", "tmp", "www", "lib", *folders):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        entry = tarfile.TarInfo("bin/busybox")
        entry.size, entry.mode = busybox.stat().st_size, 0o755
        with busybox.open("rb") as file:
            tar.addfile(entry, file)
        for path in LIBRARIES:
            entry = tarfile.TarInfo(str(path)[1:])
            entry.size, entry.mode = path.stat().st_size, 0o755
            with path.open("rb") as file:
                tar.addfile(entry, file)
        for name in APPLETS:
            entry = tarfile.TarInfo(f"bin/{name}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
    return buffer.getvalue()


def write(path: Path, name: str, command: Sequence[str], busybox: Path = BUSYBOX) -> Path:
    """Write an image of a busybox with a command of its own; return its path."""
    content = layer(busybox)
    digest = hashlib.sha256(content).hexdigest()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": ["PATH=/bin"], "Cmd": [*command]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]
    files = {
        config_name: config,
        f"{digest}/layer.tar": content,
        "manifest.json": json.dumps(manifest).encode(),
    }
    with tarfile.open(path, "w") as tar:
        for member, data in files.items():
            entry = tarfile.TarInfo(member)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return path
