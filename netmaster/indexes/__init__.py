"""The indexes of a view. Pure.

In come records as `netmaster.view` puts and removes them; out go answers that need no scan.
`endpoint_index` finds endpoints by network, group, host, container and labels; `rest_objects` keeps
the REST objects, `backlinks` the references between them and their link-sets.
"""
