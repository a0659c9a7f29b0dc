"""The guards: what pods must not reach, and what was dropped."""
