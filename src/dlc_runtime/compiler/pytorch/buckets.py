"""Dynamo splits a graph at the buckets of DistributedDataParallel, and fails where a bucket is below one MiB."""

from __future__ import annotations

import torch

MIB = 1 << 20


def make_safe(wrappers: list[torch.nn.Module]) -> list[str]:
    """Returns what was changed, for the report."""
    from dlc_runtime.compiler.pytorch.dynamo import without_ddp_buckets

    small = [w for w in wrappers if getattr(w, "bucket_bytes_cap", MIB) < MIB]
    if not small:
        return []
    without_ddp_buckets()
    return [
        "bucket_cap_mb is below 1: the graph is not split at the buckets, so gradients are exchanged after the backward"
    ]
