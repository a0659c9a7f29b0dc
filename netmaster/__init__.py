"""The master: serves the REST model and the address management, and alone writes the records.

In come REST requests of users and agents; out go answers, and writes to the store.
`netmaster.api` (HTTP edge) -> `netmaster.plan` (decides, pure) -> `netmaster.commits.commit` (the
only writer). `netmaster.leadership` runs all of it while this master leads. `netmaster.auth` knows
who may use the API, `netmaster.commands.ca` makes certificates.
"""
