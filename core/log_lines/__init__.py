"""Parts of logging: the fields of a record, lines that repeat, the last lines (`core.logs`)."""
