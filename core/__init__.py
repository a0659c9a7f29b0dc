"""The lowest layer: definitions that every package may import.

Errors, ids, store keys, addresses, bitmaps, logging, supervised tasks and small data structures.
Only `core.logs` (writes log lines), `core.tasks` and `core.change_notifier` (asyncio) have effects.
Nothing here imports another package of the project.
"""
