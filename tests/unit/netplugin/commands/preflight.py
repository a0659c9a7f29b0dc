"""What tests of preflight share."""

FLAGS = ["--mode", "kubernetes", "--netmode", "vxlan", "--fwdmode", "routing"]
