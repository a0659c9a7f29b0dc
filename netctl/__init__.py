"""The command line client netctl: arguments in, REST requests to netmaster, text and exit code out.

`main` runs a command line, `commandline` gives click the syntax of Go's flags, `commands` has one
module per command. `connection` creates the REST client, `render` formats objects, `failure` has
exit codes and error lines, `completion` answers shells.
"""
