"""Writes to the store: decisions become fenced transactions, the watch shows what they did."""
