"""DNS for pods: answers the questions that `netplugin.world.dns_records` knows.

In come DNS messages that a switch sent up (`ofnet.names`); out go answers. The only package that
imports dnspython.
"""
