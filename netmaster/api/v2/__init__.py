"""API v2, for programs: one set of handlers for all classes of objects, and watches (ADR 25)."""
