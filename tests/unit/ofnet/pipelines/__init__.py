"""The OpenFlow layer without a switch."""
