"""DNS for pods: answers queries for the names in `netplugin.world.dns.dns_records`.

In come DNS messages that a switch sent to the agent (`ofnet.packets.dns_answers`); out go answers.
The only package that imports dnspython.
"""
