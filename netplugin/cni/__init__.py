"""CNI on the host: the unix-socket server, the calls it takes and the results it answers with."""
