"""Translates what the original keeps in its store into what this netmaster keeps. Pure.

In come the original's keys and values (`objdb.original` reads them); out come ours, and findings:
what was changed, left out, or makes the translation impossible. `source` sorts and decodes the
keys, `draft` is what grows from them, `records`, `rest_objects` and `address_grants` have the
rules, `hosts` makes records of hosts from their registrations, `translation` puts all of it
together. `netmaster.commands.importing` writes the result.
"""
