"""Who may talk to whom, and how a change alters that. Pure."""
