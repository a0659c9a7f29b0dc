"""Fuzz targets: one for each parser of what comes from outside (docs/notes/parsers.md).

`targets` names the parsers, `mutations` makes their inputs, `runner` counts calls and keeps what
failed, `test_targets` is the short run of `make test`, `guided` the coverage-guided one.
"""
