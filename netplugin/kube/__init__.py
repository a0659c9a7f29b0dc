"""The Kubernetes API: lists and watches services and their endpoints.

In comes the agent's Kubernetes configuration; out go services in the World. `config` finds the API
server and credentials, `api` lists and watches over HTTP, `feed` converts objects to services
(`netplugin.world.kubernetes.kube_services`) and puts them into the World.
"""
