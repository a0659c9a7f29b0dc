"""BGP with real routers."""
