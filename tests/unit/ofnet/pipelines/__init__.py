"""The pipelines, by what becomes of single packets; see also `tests/property/test_pipelines.py`."""
