"""What HTTP asks of any route: listeners, bodies, access, routes as data, shapes of answers."""
