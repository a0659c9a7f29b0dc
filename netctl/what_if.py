"""Prints what a change would do, for `--what-if`: the answer of a dry run in words."""

from typing import Any

import click

Json = dict[str, Any]


def show_effects(preview: Json) -> None:
    """Print the effects of a dry run."""
    click.echo("\n".join(lines(preview)))


def lines(preview: Json) -> list[str]:
    """Return the effects as lines: what is written, who could talk to whom, flows by host."""
    effects = preview["effects"]
    found = ["Nothing was changed. The change would write:"]
    found += [f"  {one['action']} {one['key']}" for one in effects["writes"]]
    if not effects["complete"]:
        found.append("  (more keys, in later transactions)")
    reach = effects["reach"]
    if reach["changes"]:
        found.append("Traffic between groups would change:")
        found += [f"  {shift(one)}" for one in reach["changes"]]
    elif reach["complete"]:
        found.append("Traffic between groups would not change.")
    if not reach["complete"]:
        found.append("This list is incomplete: the change affects too much traffic to list.")
    return found + _flows(effects["flows"])


def _flows(flows: Json) -> list[str]:
    if not flows["complete"]:
        return ["Flows are not counted: the change is too large."]
    hosts = flows["hosts"]
    changed = {host: counts for host, counts in hosts.items() if any(counts.values())}
    found = ["Flows in the switches would change:"] if changed else []
    found += [
        f"  host {host}: {counts['added']} added, {counts['removed']} removed, "
        f"{counts['replaced']} replaced"
        for host, counts in changed.items()
    ]
    if not changed and not flows["missing"]:
        found.append("Flows in the switches would not change.")
    return found + [f"No figures of host {name}: {why}" for name, why in flows["missing"].items()]


def shift(one: Json) -> str:
    """Return what becomes of traffic between two groups, as a line."""
    source, destination = (one[end] or "(no group)" for end in ("source", "destination"))
    by = one["by"] or one["before"]
    decided = f", by rule {', '.join(by)}" if one["by"] else f", without rule {', '.join(by)}"
    return (
        f"tenant {one['tenant']}: {source} ({one['sources']} endpoints) to "
        f"{destination} ({one['destinations']}), {one['traffic']}: "
        f"{one['becomes']}{decided if by else ''}"
    )
