"""Kubernetes' network policies: objects of the API server in, matches for the switches out. Pure.

`objects` reads NetworkPolicy, AdminNetworkPolicy and BaselineAdminNetworkPolicy,
`cluster_policies` ClusterNetworkPolicy, which took the place of the latter two; `selectors` chooses
pods and namespaces by labels; `rules` resolves policies to rules over addresses; `matches` turns
rules into the values of `ofnet.world` from which `ofnet.pipelines` makes conjunctive flows.
"""
