"""The floor of the project: what every package may know.

Errors, ids, store keys, address arithmetic, logging and supervised tasks. Nothing here does I/O
except `core.logs` (writes log lines) and `core.tasks` (runs coroutines), and nothing here knows a
package above it.
"""
