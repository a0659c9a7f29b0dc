"""Data structures: bitmaps, copies that share, indexes, kept results, grace periods. Pure."""
