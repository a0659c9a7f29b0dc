"""The master: serves the REST model and the address management, and alone writes the records.

`netmaster.api` (edge) -> `netmaster.plan` (decides, pure) -> `netmaster.commit` (the only writer).
"""
