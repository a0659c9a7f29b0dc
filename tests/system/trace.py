"""What tests of trace share."""

from contextlib import ExitStack

from tests.bed.ovs import OvsHost


def delete_flow(ovs: OvsHost, bridge: str, flow: str, undo: ExitStack) -> None:
    """Delete one flow, given as `ovs-ofctl` prints it; have it back, with its cookie, after."""
    dump = (line.strip() for line in ovs.ofctl("--no-stats", "dump-flows", bridge).splitlines())
    (held,) = [line for line in dump if line.partition(", ")[2] == flow]
    # without a table, the flows of all tables that have this match would go
    only = flow if flow.startswith("table=") else f"table=0, {flow}"
    ovs.ofctl("--strict", "del-flows", bridge, only.partition(" actions=")[0])
    undo.callback(ovs.ofctl, "add-flow", bridge, held)
