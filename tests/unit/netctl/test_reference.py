"""The documented commands are the existing ones."""

from tests.unit.netctl.reference import DOCUMENT, with_reference


def test_the_reference_is_that_of_the_command_tree() -> None:
    written = DOCUMENT.read_text()
    assert written == with_reference(written), "python -m tests.unit.netctl.reference"
