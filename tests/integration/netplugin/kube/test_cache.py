"""The cache of Kubernetes' objects after its process was killed."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from netplugin.kube.cache import Cached, KubeCache


def test_what_was_saved_outlives_a_process_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import os, pathlib, signal, sys; from netplugin.kube.cache import KubeCache\n"
        "kept = KubeCache(pathlib.Path(sys.argv[1]))\n"
        "kept.save('services', '7', {'a': b'{\"a\": 1}'})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    root = Path(__file__).parents[4]
    environ = {**os.environ, "PYTHONPATH": str(root)}
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path)], env=environ, check=False)
    assert ended.returncode == -9
    with closing(KubeCache(tmp_path)) as found:
        assert found.load("services") == Cached("7", ({"a": 1},))
