"""The agent's deciding code, driven by random histories."""
