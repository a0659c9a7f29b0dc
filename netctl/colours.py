"""Colours of what a command finds: green for well, red for not, on terminals alone.

Out come texts with the codes of colours. `click.echo`, which prints them, takes the codes off where
no terminal reads; with the variable `NO_COLOR` (no-color.org) there are none.
"""

import os

import click


def told(text: str, *, well: bool) -> str:
    """Return a text in the colour of what it tells."""
    if os.environ.get("NO_COLOR"):
        return text
    return click.style(text, fg="green" if well else "red")
