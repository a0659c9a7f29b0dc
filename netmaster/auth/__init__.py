"""Who may use netmaster's REST API, and for what.

In come certificates (`daemons.certificates.peers`), names with passwords, and tokens; out come an
identity and a decision about each request. Pure: `route_classes` and `roles` (the table of rights),
`forwarding` (clients of a follower), `users` (records in the store), `tokens` (what `X-Auth-Token`
carries), `lockout` (delays after wrong passwords). With effects: `passwords` (argon2id in threads),
`accounts` (users and keys in the store), `audit` (one log line per decision), `login` (all of these
for one login).
"""
