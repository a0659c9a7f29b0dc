"""Variables that come from the files of a directory, as kubelet mounts a ConfigMap."""

from pathlib import Path

import pytest

from core.settings_directory import VARIABLE, take, take_or_exit


def mounted(directory: Path, **files: str) -> dict[str, str]:
    """Lay files out as kubelet does; return an environment that names them."""
    data = directory / "..2026_11_26"
    data.mkdir()
    (directory / "..data").symlink_to(data.name)
    for name, content in files.items():
        (data / name).write_text(content)
        (directory / name).symlink_to(Path("..data") / name)
    return {VARIABLE: str(directory), "PATH": "/bin", "KUBERNETES_SERVICE_HOST": "10.96.0.1"}


def test_each_file_is_a_variable_and_comes_first(tmp_path: Path) -> None:
    files = {"CONTIV_NETPLUGIN_MODE": "kubernetes\n", "KUBERNETES_SERVICE_HOST": "10.88.0.1"}
    environ = mounted(tmp_path, **files, EMPTY="")
    take(environ)
    assert environ == {
        VARIABLE: str(tmp_path),
        "PATH": "/bin",
        "CONTIV_NETPLUGIN_MODE": "kubernetes",
        "KUBERNETES_SERVICE_HOST": "10.88.0.1",
        "EMPTY": "",
    }


@pytest.mark.parametrize("environ", [{}, {VARIABLE: ""}])
def test_without_a_directory_nothing_changes(environ: dict[str, str]) -> None:
    before = dict(environ)
    take(environ)
    assert environ == before


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nothing"):
        take({VARIABLE: str(tmp_path / "nothing")})
    (tmp_path / "BAD").write_bytes(b"\xff")
    with pytest.raises(ValueError, match="utf-8"):
        take({VARIABLE: str(tmp_path)})


def test_a_program_says_what_it_cannot_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nothing"))
    with pytest.raises(SystemExit, match=f"{VARIABLE}: .*nothing"):
        take_or_exit()
