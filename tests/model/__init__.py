"""What tests compare the product with: an OpenFlow switch and the meaning of policies, as models.

Pure, and written from the specifications, not from the product; no tests are in here.
"""
