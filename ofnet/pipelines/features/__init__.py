"""The features: each makes the flows of one subject. Pure."""
