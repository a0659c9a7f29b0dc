"""The metrics page in a process whose library was replaced."""

import subprocess
import sys


def test_the_page_needs_no_file_that_an_upgrade_replaces_once_its_library_is_loaded() -> None:
    lines = (
        "import asyncio, sys",
        "from daemons import metrics_page",
        "assert 'prometheus_client' not in sys.modules",
        "metrics_page.load()",
        "sys.path[:] = [folder for folder in sys.path if 'site-packages' not in folder]",
        "print(asyncio.run(metrics_page.MetricsPage().text()).decode())",
    )
    command = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "process_resident_memory_bytes" in done.stdout
