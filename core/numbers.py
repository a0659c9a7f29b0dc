"""Reads whole numbers from text that comes from outside: ASCII digits within bounds. Pure.

Python's own `int` takes digits of any script, signs, underscores and blanks, and refuses a text of
thousands of digits with an error of its own. Used wherever a query, a flag or a record has a number
as text.
"""


def bounded(text: str, least: int, greatest: int) -> int | None:
    """Return the number that a text spells; None if it spells none of least..greatest.

    A text has as many digits as the greatest number at most, zeros in front included.
    """
    if not text.isascii() or not text.isdigit() or len(text) > len(str(greatest)):
        return None
    number = int(text)
    return number if least <= number <= greatest else None
