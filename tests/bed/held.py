"""Which objects of some kinds a process still has: what nobody needs any more must go."""

import gc


def held(kinds: tuple[type, ...], text: str) -> list[object]:
    """Return the objects of these kinds that have a text in their representation."""
    gc.collect()
    return [one for one in gc.get_objects() if isinstance(one, kinds) and text in repr(one)]
