"""A process of the bed: started in a namespace, awaited until ready, stopped, killed or frozen.

In come a command and a check of readiness; a `Daemon` can be started again after each end, with
the same command. Its output goes to its log file. Must not know which program it runs:
`tests.bed.etcd`, `tests.bed.ovs` and `tests.bed.cluster` do.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.bed.janitor import Keeper, process_janitor
from tests.bed.netns import Namespace
from tests.bed.waiting import PATIENCE, WITHIN, eventually

LOG_TAIL = 2000

AT_ONCE: Mapping[str, str] = {"CONTIV_NETMASTER_ADDRESS_COOLDOWN": "0"}
"""Has netmaster grant a released address again at once, unless a flag says otherwise.

So the original's recordings have it, and so it is harder for all that remembers its last holder.
"""


class Daemon:
    """One long-running program. It dies with its owner, unless the keeper says it outlives it."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        namespace: Namespace | None = None,
        env: Mapping[str, str] | None = None,
        ready: Callable[[], bool] = lambda: True,
        keeper: Keeper | None = None,
    ) -> None:
        self.command = [str(word) for word in command]
        self.log = log
        self.namespace = namespace
        self._env = env
        self._ready = ready
        self._keeper = keeper or process_janitor()
        self._process: subprocess.Popen[bytes] | None = None
        self._held: int | None = None

    def pass_socket(self, held: int | None) -> None:
        """Hand a listening socket over at each start from now on, as systemd does; None for none.

        It stays the caller's, so that what connects while the program is away waits.
        """
        self._held = held

    @property
    def name(self) -> str:
        """The program's name."""
        return Path(self.command[0]).name

    @property
    def pid(self) -> int:
        """The process id of the present run."""
        return self._running().pid

    @property
    def running(self) -> bool:
        """Whether the process lives (a frozen one does)."""
        return self._process is not None and self._process.poll() is None

    @property
    def frozen(self) -> bool:
        """Whether all threads of the process are stopped (or have ended)."""
        threads = Path(f"/proc/{self._running().pid}/task").iterdir()
        return all(_thread_state(thread) in "TtZX" for thread in threads)

    def start(self, *, within: float = WITHIN) -> None:
        """Start the program and wait until it is ready."""
        self.spawn()
        self.await_ready(within=within)

    def await_ready(self, *, within: float = WITHIN) -> None:
        """Wait until a spawned program is ready; it is killed if it does not become so."""
        try:
            eventually(self._is_ready, f"{self.name} ready", within=within)
        except TimeoutError as exc:
            self.kill()
            raise TimeoutError(f"{exc}\n{self.log_text()[-LOG_TAIL:]}") from exc

    def spawn(self) -> None:
        """Start the program without waiting for it."""
        if self.running:
            raise RuntimeError(f"{self.name} runs already")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.prefix(), *_given(self._held), *self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=None if self._env is None else {**os.environ, **self._env},
                start_new_session=True,
                pass_fds=() if self._held is None else (self._held,),
            )
        self._keeper.watch_pid(self._process.pid)

    def terminate(self, *, within: float = WITHIN) -> int:
        """Ask the process to end (SIGTERM), wait for it; its exit status."""
        process = self._running()
        process.terminate()
        return process.wait(within * PATIENCE)

    def kill(self) -> None:
        """End the process at once (SIGKILL), if it lives."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """End the process in good order if it lives, frozen or not."""
        if self.running:
            self.resume()
            self.terminate()

    def restart(self) -> None:
        """End the process in good order, then start it again."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze the process (SIGSTOP): it keeps its connections and answers nothing."""
        self._running().send_signal(signal.SIGSTOP)
        # Each thread stops by itself, some time after the signal was sent.
        eventually(lambda: self.frozen, f"{self.name} is frozen")

    def resume(self) -> None:
        """Let a frozen process go on (SIGCONT)."""
        self._running().send_signal(signal.SIGCONT)

    def log_text(self) -> str:
        """Everything the program has said so far, over all its runs."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def _is_ready(self) -> bool:
        status = self._running().poll()
        if status is not None:
            tail = self.log_text()[-LOG_TAIL:]
            raise RuntimeError(f"{self.name} ended at once, status {status}\n{tail}")
        return self._ready()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._process

    def prefix(self) -> list[str]:
        """Return what runs before the program; each step execs the next, the pid stays."""
        prefix: list[str] = []
        # the kernel's death signal follows the starting thread; the janitor covers the others
        if self._keeper.dies_with_owner and threading.current_thread() is threading.main_thread():
            prefix += ["setpriv", "--pdeathsig", "KILL", "--"]
        if self.namespace is not None:
            prefix += self.namespace.enter
        return prefix


def _thread_state(thread: Path) -> str:
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
        return "X"


def _given(held: int | None) -> list[str]:
    """Return what, put before a command, tells it of a socket (sd_listen_fds(3))."""
    if held is None:
        return []
    told = f'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@" 3<&{held}'
    return ["bash", "-c", told, "bash"]  # dash knows files up to 9 alone
