"""The CNI binary and its server as a runtime meets them."""
