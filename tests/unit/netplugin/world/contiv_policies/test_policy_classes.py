"""Which groups have the same policies, and what each change says of them."""

import pytest

from core.ids import GroupKey
from netplugin.world.contiv_policies.policy_classes import Holding, PolicyClasses
from ofnet.world import PolicyClass

WEB, SHOP, DB = GroupKey("web:red"), GroupKey("shop:red"), GroupKey("db:red")
DOORS: Holding = frozenset({("red", "doors")})
WALLS: Holding = frozenset({("red", "doors"), ("red", "walls")})


@pytest.fixture
def book() -> PolicyClasses:
    """Return a book of two groups with the same policies, and one with more."""
    book = PolicyClasses()
    for key, number, held in ((WEB, 5, DOORS), (SHOP, 3, DOORS), (DB, 4, WALLS)):
        book.put_group(key, number)
        book.put_policies(key, held)
    return book


def test_groups_with_the_same_policies_are_named_by_the_smallest_id(book: PolicyClasses) -> None:
    assert book.classes == {WEB: PolicyClass(5, 3), SHOP: PolicyClass(3, 3)}
    assert book.of(DB) is None


def test_one_that_joins_is_the_only_one_that_changes(book: PolicyClasses) -> None:
    assert book.put_policies(DB, DOORS) == {DB}
    assert book.of(DB) == PolicyClass(4, 3)


def test_a_smaller_id_names_all_anew(book: PolicyClasses) -> None:
    assert book.put_group(DB, 1) == set()
    assert book.put_policies(DB, DOORS) == {WEB, SHOP, DB}
    assert {one.number for one in book.classes.values()} == {1}


@pytest.mark.parametrize("gone", [WEB, SHOP])
def test_the_last_of_a_class_is_alone_again(book: PolicyClasses, gone: GroupKey) -> None:
    assert book.put_group(gone, None) == {WEB, SHOP}
    assert not book.classes


def test_without_the_representative_the_others_have_another(book: PolicyClasses) -> None:
    book.put_policies(DB, DOORS)
    assert book.put_policies(SHOP, frozenset()) == {WEB, SHOP, DB}
    assert book.classes == {WEB: PolicyClass(5, 4), DB: PolicyClass(4, 4)}


def test_a_group_whose_id_another_has_too_shares_nothing(book: PolicyClasses) -> None:
    assert book.put_group(DB, 5) == {WEB, SHOP}
    assert not book.classes
    assert book.put_group(DB, 4) == {WEB, SHOP}
    assert book.classes.keys() == {WEB, SHOP}


def test_what_was_returned_stays_as_it_is(book: PolicyClasses) -> None:
    before = book.classes
    assert book.classes is before, "and is shared until something changes"
    book.put_policies(WEB, frozenset())
    assert before.keys() == {WEB, SHOP}
