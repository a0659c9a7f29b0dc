"""The commands of `netmaster`: backups, certificates, accounts, rights in the store.

In come the words of a command line; out comes what the command prints, files or changes of the
store. `dispatch` finds the command and reads its flags; `backup` dumps and loads the store;
`importing` takes over the original's store; `ca_command` writes what `ca` makes of certificates;
`accounts` changes users and token keys; `store_acl` prints the rights that each daemon needs in the
store.
"""
