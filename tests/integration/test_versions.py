"""A commit's tag names the version that its tree has."""

import subprocess
from pathlib import Path

from core.version import VERSION

ROOT = Path(__file__).parents[2]


def test_a_tagged_commit_is_of_its_tag_s_version() -> None:
    words = ["git", "-C", str(ROOT), "tag", "--points-at", "HEAD", "v*"]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert set(done.stdout.split()) <= {f"v{VERSION}"}
