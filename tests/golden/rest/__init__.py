"""Recorded requests and answers of the original, one scenario a file, and where we differ.

`<scenario>.jsonl`: first the scenario and its start state, then one request a line with the answer
it got; `raw` is the exact body where it was short, stack lines of errors are left out.
`<scenario>.ours.jsonl`: steps whose answer differs here on purpose, with the deviation's id (a line
of docs/deviations.md) and our answer.
"""
