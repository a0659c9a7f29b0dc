"""Services beside the switch: what it cannot refuse itself, and its counters. Pure.

The switch chooses providers and translates (`ofnet.pipelines.features.service_nat`). `refusal`
answers packets to ports without providers, `stats` reports state and counters in the original's
shapes.
"""
