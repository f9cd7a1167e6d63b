"""Which batch has which samples and which rank gets it: values in, values out; may import `errors` alone.

No clock, no socket, no torch: promises about order and completeness are decided here, and tested without processes.
"""
