"""What tests of metrics share."""

from netplugin.startup import metric_names as names

NOT_HERE = {
    *(names.KUBE_FAULTY, names.KUBE_LISTED, names.KUBE_OBJECTS, names.KUBE_SILENT),
    *(names.BGP_UP, names.BGP_ROUTES, names.BGP_ANNOUNCED, names.BGP_SESSIONS),
    *(names.FLOWS_KEPT, names.FLOWS_MADE, names.FLOWS_LOST),
    *(names.FLOWS_EXPORTED, names.FLOWS_NOT_EXPORTED),
    names.EXPIRY,
}
"""Without a Kubernetes, a BGP peer, flow records and TLS."""
