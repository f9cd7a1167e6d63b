"""What training loops expect of a loader beside its batches; may import `errors`, and torch and accelerate lazily.

`device`: batches on the GPU. `stand_in`: what frameworks look for in a DataLoader. `gradient_sync`: Accelerate.
"""
