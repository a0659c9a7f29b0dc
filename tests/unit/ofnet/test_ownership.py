"""Claims: the outcome depends on who claims what, not on the order of events."""

from hypothesis import given
from hypothesis import strategies as st

from ofnet.changes import ObjectId, ObjectKind
from ofnet.ownership import Ownership

owners = st.builds(
    ObjectId, st.sampled_from([ObjectKind.LOCAL, ObjectKind.REMOTE]), st.sampled_from("abc")
)
events = st.lists(
    st.tuples(owners, st.dictionaries(st.sampled_from("xyz"), st.integers(0, 3), max_size=3))
)


@given(events)
def test_the_smallest_owner_wins_whatever_happened_before(
    history: list[tuple[ObjectId, dict[str, int]]],
) -> None:
    claims: Ownership[str, int] = Ownership()
    model: dict[ObjectId, dict[str, int]] = {}
    for owner, items in history:
        claims.claim(owner, items)
        model[owner] = items
    expected: dict[str, int] = {}
    for owner in sorted(model, reverse=True):
        expected.update(model[owner])
    assert claims.values == expected
    assert set(claims.owners()) == {owner for owner, items in model.items() if items}
    for owner, items in model.items():
        assert set(claims.claimed(owner)) == set(items)
