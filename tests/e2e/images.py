"""Images for the cluster's pods, made without a registry: tars as `docker save` writes them.

In come Debian's two busyboxes; out come an image with the programs of the static one, one that only
waits, for the sandboxes of pods, and one in the place of the public image of busybox. For
upstream's tests: in come their `agnhost` and the names of their images; out comes one tar of
images that all have the same file system, of Debian's packages with `agnhost`.
"""

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

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
    return save(path, layer(busybox), {name: {"Env": ["PATH=/bin"], "Cmd": [*command]}})


PROGRAMS: Final = ("agnhost", "regression-issue-74839")
"""The programs of upstream's images of these names."""
_PAUSE: Final = {"Entrypoint": ["/agnhost"], "Cmd": ["pause"]}
_SHELL: Final = {"Cmd": ["sleep", "99999999"]}
UPSTREAM: Final[Mapping[str, Mapping[str, list[str]]]] = {
    "agnhost": _PAUSE,
    "pause": _PAUSE,
    "regression-issue-74839": {"Entrypoint": ["/regression-issue-74839"]},
    # looks names up by the C library of Debian; the first name is that of releases before 1.36
    "jessie-dnsutils": _SHELL,
    "glibc-dns-testing": _SHELL,
    "busybox": {"Cmd": ["sh"]},
    "nginx": {"Entrypoint": ["/agnhost"], "Cmd": ["netexec", "--http-port=80"]},
}
"""What the containers of upstream's images do; the others serve volumes, Windows and the like."""
PACKAGES: Final = (
    *("bind9-dnsutils", "bind9-host", "curl", "iproute2", "iputils-ping", "netcat-openbsd"),
    *("procps", "wget"),
)
"""What upstream's tests call in their containers."""


def for_upstream(directory: Path, programs: Path, listed: Iterable[str]) -> Path:
    """Write the images that upstream's network tests use, of those listed; return their tar.

    `directory` keeps the packages' file system for the next run, `programs` has `PROGRAMS`.
    """
    root = directory / "root.tar"
    if not root.exists():
        new = directory / "new.tar"
        make = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(PACKAGES)}"]
        subprocess.run([*make, "bookworm", new], check=True)
        new.rename(root)
    configs = {
        name: {"Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"], **UPSTREAM[kind]}
        for name in listed
        if (kind := kind_of(name)) in UPSTREAM
    }
    files = {
        **{name: programs / name for name in PROGRAMS},
        # of its TLS servers: the API server, as their client, does not verify them
        "localhost.crt": directory / "localhost.crt",
        "localhost.key": directory / "localhost.key",
    }
    issue = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    into: list[str | Path] = [
        "-keyout",
        files["localhost.key"],
        "-out",
        files["localhost.crt"],
        "-days",
        "30",
    ]
    subprocess.run([*issue, *into], check=True, capture_output=True)
    return save(directory / "images.tar", _with(root, files), configs)


def kind_of(image: str) -> str:
    """Return an image's name without registry and tag."""
    return image.rpartition("/")[2].partition(":")[0]


def _with(root: Path, files: Mapping[str, Path]) -> bytes:
    """Return a file system with upstream's files at its top, and the folder they write to."""
    buffer = io.BytesIO()
    with tarfile.open(root) as source, tarfile.open(fileobj=buffer, mode="w") as tar:
        for member in source:
            if not (member.ischr() or member.isblk()):
                tar.addfile(member, source.extractfile(member) if member.isreg() else None)
        entry = tarfile.TarInfo("uploads")
        entry.type, entry.mode = tarfile.DIRTYPE, 0o777
        tar.addfile(entry)
        _add(tar, files)
    return buffer.getvalue()


def of_files(files: Mapping[str, Path]) -> bytes:
    """Return a file system with programs at its top, and nothing else."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        _add(tar, files)
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, files: Mapping[str, Path]) -> None:
    for name, path in files.items():
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = path.stat().st_size, 0o755
        with path.open("rb") as file:
            tar.addfile(entry, file)


def save(path: Path, content: bytes, configs: Mapping[str, Mapping[str, list[str]]]) -> Path:
    """Write images of one file system, as `docker save` does; return the tar's path."""
    digest = hashlib.sha256(content).hexdigest()
    files = {f"{digest}/layer.tar": content}
    manifest = []
    for name, config in configs.items():
        text = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": config,
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
            }
        ).encode()
        file = f"{hashlib.sha256(text).hexdigest()}.json"
        files[file] = text
        manifest.append({"Config": file, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]})
    files["manifest.json"] = json.dumps(manifest).encode()
    with tarfile.open(path, "w") as tar:
        for member, data in files.items():
            entry = tarfile.TarInfo(member)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return path
