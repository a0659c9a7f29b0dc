"""The Kubernetes API: lists and watches services and their endpoints.

`config` finds API server and credentials, `api` speaks HTTP, `feed` gives what arrives to the World
(`netplugin.world.kube_services` makes services of it).
"""
