"""The folder of compiled code that outlives a job; may import the standard library and `base`."""
