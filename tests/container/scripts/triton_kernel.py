"""Compiles a Triton kernel for an H100 without a GPU: needs Triton's ptxas and libdevice. Prints its first bytes."""

import inspect

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.language.extra import libdevice


@triton.jit
def angle(x, y, n, BLOCK: tl.constexpr):  # noqa: N803  # as Triton's own constants are written
    """y = atan2(x, x), which only libdevice knows."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + index, mask=index < n)
    tl.store(y + index, libdevice.atan2(value, value), mask=index < n)


signature = {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}
named = "constexprs" if "constexprs" in inspect.signature(ASTSource).parameters else "constants"  # Triton before 3.3
source = ASTSource(fn=angle, signature=signature, **{named: {"BLOCK": 128}})
compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
print(compiled.asm["cubin"][:4])
