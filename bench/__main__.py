"""`make bench`: every benchmark in turn, one table; `python -m bench NAME...` runs those named."""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from bench import (
    address_blocks,
    agents,
    cni,
    cni_start,
    containers,
    endpoints,
    failover,
    flow_records,
    flows,
    metrics,
    names,
    netctl_start,
    objects,
    pod_counters,
    policies,
    policy_log,
    policy_scale,
    restore,
    rules,
    runtime,
    secured,
    services,
    takeover,
    throughput,
)
from bench.table import Row, show

BENCHMARKS: Final[dict[str, Callable[[], Iterable[Row]]]] = {
    "flows": flows.rows,
    "endpoints": endpoints.rows,
    "consul": endpoints.rows_on_consul,
    "rules": rules.rows,
    "policies": policies.rows,
    "policy_scale": policy_scale.rows,
    "secured": secured.rows,
    "objects": objects.rows,
    "failover": failover.rows,
    "takeover": takeover.rows,
    "restore": restore.rows,
    "agents": agents.rows,
    "cni": cni.rows,
    "address_blocks": address_blocks.rows,
    "cni_start": cni_start.rows,
    "netctl_start": netctl_start.rows,
    "runtime": runtime.rows,
    "containers": containers.rows,
    "throughput": throughput.rows,
    "names": names.rows,
    "metrics": metrics.rows,
    "pod_counters": pod_counters.rows,
    "policy_log": policy_log.rows,
    "flow_records": flow_records.rows,
    "services": services.rows,
}


def main(names: list[str]) -> int:
    """Run the benchmarks named, or all; return the exit code."""
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}: there are {', '.join(BENCHMARKS)}")
        return 2

    def rows() -> Iterator[Row]:
        for name in names or BENCHMARKS:
            yield from BENCHMARKS[name]()

    show(rows())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
