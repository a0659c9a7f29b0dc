"""Detects writes to the leader's keys that the leader did not make.

In come what the leader committed and what a watch of the store reports; out comes the first key
that another writer changed. `netmaster.commits.commit` then reads its view again.
"""

from collections import deque
from collections.abc import Iterable, Mapping

from core import keys
from netmaster import codec
from netmaster.host_progress import PrefixRevisions
from objdb.api import Delete, Delta, Entry, Put, Snapshot


class RevisionTracker:
    """The revisions of the leader's keys, and the revisions of its own recent commits.

    A reported change is the leader's own if its revision is one of a commit of this term, or if
    the key is known at that revision or a later one. An own revision is kept until the watch has
    reported past it.
    """

    # The outcome of a commit and the watch's report of it arrive in any order. Checked while a
    # commit is in flight, a report of that very commit would look foreign. So `foreign_key` may be
    # called only while no commit is in flight; the caller collects reports until then.

    def __init__(self) -> None:
        self.prefixes = PrefixRevisions()
        self.revs: dict[str, int] = {}
        self._reported = 0
        self._own: set[int] = set()
        self._own_in_order: deque[int] = deque()

    def restart(self, revs: Mapping[str, int], at: int) -> None:
        """Start over from the revisions of the store's keys, as a watch reported them up to one."""
        self.revs = {key: rev for key, rev in revs.items() if codec.is_leaders(key)}
        for key, rev in self.revs.items():
            self.prefixes.update(key, rev)
        self._reported = at

    def committed(self, ops: Iterable[Put | Delete], rev: int) -> None:
        """Take note of an own commit."""
        if rev not in self._own:
            self._own.add(rev)
            self._own_in_order.append(rev)
        for op in ops:
            if isinstance(op, Put):
                self.prefixes.update(op.key, rev)
                self.revs[op.key] = rev
            else:
                self.prefixes.remove(op.key, rev)
                self.revs.pop(op.key, None)

    def revisions_of(self, records: Iterable[str], policy: str = "") -> dict[str, int]:
        """Return the last revision of some keys under each prefix that agents watch.

        Rules that were removed from a policy, if one is named, count too.
        """
        found = PrefixRevisions()
        for key in records:
            found.update(key, self.revs.get(key, 0))
        found.update(keys.RULES, self.prefixes.removals.get(policy, 0))
        return found.revisions

    def foreign_key(self, reported: Snapshot | Delta) -> str | None:
        """Return a key that another writer changed; None if every change is the leader's own."""
        if isinstance(reported, Snapshot):
            puts: Iterable[Entry] = reported.entries.values()
            deleted: Iterable[str] = [key for key in self.revs if key not in reported.entries]
        else:
            puts, deleted = reported.puts, reported.deletes
        culprit = next((entry.key for entry in puts if self._is_foreign(entry)), None)
        if culprit is None:
            # A key that was put again after the reported revision is not deleted.
            culprit = next(
                (key for key in deleted if 0 < self.revs.get(key, 0) <= reported.rev), None
            )
        self._reported = max(self._reported, reported.rev)
        while self._own_in_order and self._own_in_order[0] <= self._reported:
            self._own.discard(self._own_in_order.popleft())
        return culprit

    def _is_foreign(self, entry: Entry) -> bool:
        return (
            entry.rev not in self._own
            and entry.rev > self._reported
            and self.revs.get(entry.key, 0) < entry.rev
            and codec.is_leaders(entry.key)
        )
