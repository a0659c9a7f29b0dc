"""How much longer a slow host waits: the factor, and the limits that it holds for."""

import pytest

from core.errors import UsageError
from core.patience import VARIABLE, factor_of
from daemons import flags


@pytest.mark.parametrize(
    ("text", "factor"), [(None, 1), ("", 1), ("1", 1), ("2.5", 2.5), ("20", 20)]
)
def test_the_factor_is_what_the_variable_says(text: str | None, factor: float) -> None:
    assert factor_of(text) == factor


@pytest.mark.parametrize("text", ["0", "0.5", "20.1", "-3", "nan", "inf", "ten", "1" * 5000])
def test_another_value_ends_the_start(text: str) -> None:
    with pytest.raises(UsageError, match=f"{VARIABLE} is a number between 1 and 20"):
        flags.read("netplugin", (), [], {VARIABLE: text}, "1.0")
