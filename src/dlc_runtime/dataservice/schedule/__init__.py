"""Which batch has which samples and goes to whom: values in, values out; may import the standard library only.

No clock, no socket, no torch: what is promised about order and completeness is decided here and tested without
processes.
"""
