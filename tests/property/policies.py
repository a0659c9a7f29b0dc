"""What tests of policies share."""

from typing import Literal

from hypothesis import strategies as st

from tests.model.policy_oracle import UserRule

OTHER_ENDS: tuple[dict[str, str], ...] = (
    {},
    {"group": "web"},
    {"group": "db"},
    {"group": "nobodys"},
    {"network": "n1"},
    {"network": "n2"},
    {"address": "10.1.0.2"},
    {"address": "10.1.0.2-5"},
    {"address": "10.2.0.0/16"},
    {"group": "db", "address": "10.1.0.4/30"},
    {"address": "2001:db8:1::2"},
    {"address": "2001:0DB8:2::/48"},
    {"group": "db", "address": "2001:db8:1::4/126"},
)


DIRECTIONS: tuple[Literal["in", "out"], ...] = ("in", "out")


ACTIONS: tuple[Literal["allow", "deny"], ...] = ("allow", "deny")


PROTOCOLS = ("", "tcp", "udp", "icmp", "6", "47")


PORTS = (0, 80)


PRIORITIES = (1, 50, 100)


rules_of_either_policy = st.builds(
    lambda end, **words: UserRule(name="", **words, **end),
    st.sampled_from(OTHER_ENDS),
    policy=st.sampled_from(["p1", "p2"]),
    direction=st.sampled_from(DIRECTIONS),
    action=st.sampled_from(ACTIONS),
    priority=st.sampled_from(PRIORITIES),
    protocol=st.sampled_from(PROTOCOLS),
    port=st.sampled_from(PORTS),
    audit=st.sampled_from([False, False, False, True]),
)
