"""The one place that reads TensorFlow's private parts: graphs as they are made, this process's device and rank.

A part that a version lacks reads as nothing.
"""

from __future__ import annotations

import functools
import json
import math
import os
import sys
import time
import weakref
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress

import tensorflow as tf

from dlc_runtime.compiler.cache.machine import digest
from dlc_runtime.compiler.source_locations import is_user_code
from dlc_runtime.compiler.tensorflow_xla.turns import CLUSTERS, WHOLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Callable

MODULE = "tensorflow.python.framework.func_graph"
ENTRY = "func_graph_from_py_func"
CONTEXT = "tensorflow.python.eager.context"
GRADIENTS = "tensorflow.python.ops.gradients"
STACKS = "tensorflow.python.util.tf_stack"
RANDOM = "tensorflow.python.ops.gen_stateless_random_ops_v2"
UNIFORM, NORMAL = "stateless_random_uniform_v2", "stateless_random_normal_v2"
BITS = "stateless_random_uniform_full_int_v2"
# Each way has kernels of its own, whose numbers begin anew.
STATEFUL = ("RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal", "Multinomial")
STATELESS = ("StatelessRandom", "StatelessTruncated", "StatelessMultinomial", "StatelessParameterized")
DRAWN_OTHERWISE = ("StatelessTruncatedNormalV2", "StatelessMultinomial")
# XLA leaves them out of what it compiles as a whole.
ASSERTIONS = ("Assert", "CheckNumerics", "CheckNumericsV2")
DRAWN_ALIKE = ("StatelessRandomUniformV2", "StatelessRandomNormalV2")  # if they are of float32


class Tracing:
    """Seconds of tracing so far, of the outermost functions."""

    def __init__(self) -> None:
        self.seconds = 0.0
        # A number that changes when something is traced; the session changes it when something is compiled.
        self.changes = 0
        # Ways under which something that was traced draws other random numbers.
        self.random: set[str] = set()
        # Where the script asserts something in the traced functions, "" for nowhere.
        self.assertion = ""
        # Number formats of the traced functions, and the outermost graphs.
        self.formats: set[str] = set()
        self.graphs: list[Any] = []
        self._depth = 0
        self._apart = False
        # The graph that was made last, of the outermost function.
        self._latest: Callable[[], Any] = lambda: None

    def listen(self) -> bool:
        module = sys.modules.get(MODULE)
        entry = getattr(module, ENTRY, None)
        if entry is None:
            return False

        @functools.wraps(entry)
        def traced(*arguments: Any, **named: Any) -> Any:
            if self._apart:
                return entry(*arguments, **named)
            self._depth += 1
            started = time.perf_counter()
            try:
                graph = entry(*arguments, **named)
                self.random |= keep_random_numbers(graph)
                self.formats |= find_formats(graph)
                if self._depth == 1:
                    self.graphs.append(graph)
                self.assertion = self.assertion or find_assertion(graph)
                self._latest = weakref.ref(graph)  # the outermost graph ends last
                return graph
            finally:
                self._depth -= 1
                if not self._depth:
                    self.changes += 1
                    self.seconds += time.perf_counter() - started

        setattr(module, ENTRY, traced)
        return True

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Trace code that is no part of the script's steps."""
        self._apart = True
        try:
            yield
        finally:
            self._apart = False

    def fingerprint(self) -> str:
        """Hash what the latest graph computes and trains, the same in each job; "" if it cannot be told."""
        graph = self._latest()
        try:
            definition = graph.as_graph_def()
            functions = [definition.node, *(function.node_def for function in definition.library.function)]
            kinds = Counter(node.op for nodes in functions for node in nodes)
            variables = sorted(f"{variable.dtype.name}{variable.shape}" for variable in graph.variables)
        except Exception:
            # None, or larger than a protocol buffer may be.
            return ""
        return digest(f"{sorted(kinds.items())} {variables}")


def keep_random_numbers(graph: Any) -> set[str]:
    """Keep random numbers out of clusters, as far as that can be; return the ways under which some are others."""
    found: set[str] = set()
    for operation in graph.get_operations() if hasattr(graph, "get_operations") else ():
        kind = operation.type
        if kind in STATEFUL:
            found |= {WHOLE, CLUSTERS}
        elif kind.startswith(STATELESS):
            try:
                operation._set_attr("_XlaCompile", tf.compat.v1.AttrValue(b=False))
            except Exception:
                # A version in which it cannot be set.
                found.add(CLUSTERS)
            if kind in DRAWN_OTHERWISE or (kind in DRAWN_ALIKE and operation.outputs[0].dtype != tf.float32):
                found.add(WHOLE)
    return found


def find_formats(graph: Any) -> set[str]:
    """Return the names of the floating-point formats in a graph."""
    operations = graph.get_operations() if hasattr(graph, "get_operations") else ()
    kinds = {output.dtype.base_dtype for operation in operations for output in operation.outputs}
    return {kind.name for kind in kinds if kind.is_floating}


def find_assertion(graph: Any) -> str:
    """Return file and line of an assertion that the script makes itself, "" if there is none but of packages."""
    for operation in graph.get_operations() if hasattr(graph, "get_operations") else ():
        if operation.type in ASSERTIONS:
            with suppress(Exception):  # a version that keeps no stacks
                file, line = find_origin(operation)
                if is_user_code(file):
                    return f"{os.path.basename(file)}:{line}"
    return ""


def find_origin(operation: Any) -> tuple[str, int]:
    """Return the innermost line outside of TensorFlow that made an operation."""
    own = os.path.dirname(tf.__file__)
    frames = [frame for frame in operation.traceback if not str(frame.filename).startswith(own)]
    return str(frames[-1].filename), int(frames[-1].lineno)


def function_class() -> Any:
    """Return the class of what tf.function returns; it moved between versions."""
    return type(tf.function(lambda: None))


def wrap_call(called: Callable[..., Any]) -> None:
    """Put `called(function, call, arguments, named)` in the place of each call of a tf.function."""
    kind = function_class()
    original = kind.__call__

    @functools.wraps(original)
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return called(self, original, arguments, named)

    kind.__call__ = call


def wrap_sessions(noticed: Callable[[], None], clustering: bool) -> None:
    """Call `noticed` before each Session; with `clustering` make it compile clusters."""
    kind = tf.compat.v1.Session
    original = kind.__init__

    @functools.wraps(original)
    def make(self: Any, target: str = "", graph: Any = None, config: Any = None) -> None:
        noticed()
        original(self, target, graph, with_clustering(config) if clustering else config)

    kind.__init__ = make


def with_clustering(config: Any) -> Any:
    """Return the configuration with clustering, unless the script has chosen."""
    result = tf.compat.v1.ConfigProto()
    if config is not None:
        result.CopyFrom(config)
    options = result.graph_options.optimizer_options
    if options.global_jit_level == options.DEFAULT:
        options.global_jit_level = options.ON_1
    return result


def wrap_gradient(noticed: Callable[[], None]) -> None:
    """Call `noticed` before each gradient that the script asks a tape for, or a graph."""
    original = tf.GradientTape.gradient

    @functools.wraps(original)
    def gradient(self: Any, *arguments: Any, **named: Any) -> Any:
        noticed()
        return original(self, *arguments, **named)

    tf.GradientTape.gradient = gradient
    # The last of these is called by the optimizers of tf.compat.v1.
    modules: list[Any] = [tf, tf.compat.v1, sys.modules.get(GRADIENTS)]
    for module in modules:
        if hasattr(module, "gradients"):
            module.gradients = wrap_graph_gradients(module.gradients, noticed)


def wrap_graph_gradients(original: Any, noticed: Callable[[], None]) -> Any:
    @functools.wraps(original)
    def gradients(*arguments: Any, **named: Any) -> Any:
        if not tf.executing_eagerly():  # where it raises
            noticed()
        return original(*arguments, **named)

    return gradients


def count_traces(function: Any) -> int:
    count = getattr(function, "experimental_get_tracing_count", None)
    return int(count()) if count is not None else 0


def read_jit_compile(function: Any) -> bool | None:
    """Return what the script says of a tf.function's jit_compile, or None."""
    stated: bool | None = getattr(function, "_jit_compile", None)
    return stated if stated is not None else getattr(function, "_experimental_compile", None)


def switch_clustering(wanted: bool) -> None:
    """Switch auto-clustering on or off for later calls."""
    tf.config.optimizer.set_jit(wanted)
    module = sys.modules.get(CONTEXT)
    # Made now, it is no part of the next step's time.
    if module is not None:
        _ = module.context().function_call_options


class Clustering:
    """Auto-clustering, which holds for all that is called. The script may have switched it on before the first step."""

    def __init__(self) -> None:
        # None: ours to set, and not set yet.
        self._is_on: bool | None = None

    def is_the_scripts(self) -> bool:
        """Tell whether the script has switched it on itself."""
        return self._is_on is None and bool(tf.config.optimizer.get_jit())

    def switch(self, wanted: bool) -> None:
        """Switch it for later calls."""
        if wanted != bool(self._is_on):
            self._is_on = wanted
            switch_clustering(wanted)

    def without(self, call: Callable[[], Any]) -> Any:
        """Call a step without it for once."""
        if not self._is_on:
            return call()
        switch_clustering(False)
        try:
            return call()
        finally:
            switch_clustering(True)


@contextmanager
def without_our_frames() -> Iterator[None]:
    """Leave our files out of the stacks that TensorFlow keeps and prints of an operation's origin."""
    stacks: Any = sys.modules.get(STACKS)
    with ExitStack() as entered:
        with suppress(Exception):  # a version that filters otherwise
            entered.enter_context(make_frame_filter(stacks.StackTraceFilter)())
        yield


@functools.lru_cache(maxsize=1)
def make_frame_filter(base: Any) -> Any:
    class OurFrames(base):  # type: ignore[misc]
        def get_filtered_filenames(self) -> frozenset[str]:
            outer = self.parent.get_filtered_filenames() if self.parent is not None else frozenset()
            return our_files() | outer

    return OurFrames


@functools.lru_cache(maxsize=1)
def our_files() -> frozenset[str]:
    folder = os.path.dirname(__file__)
    return frozenset(os.path.join(folder, name) for name in os.listdir(folder))


@contextmanager
def random_numbers_as_without_xla() -> Iterator[None]:
    """Make stateless random numbers of functions traced meanwhile those of a job without XLA.

    Both have the same random bits, of which XLA makes other numbers than TensorFlow's own operations do. So here the
    numbers are made of the bits as these do it: uniform numbers to the bit, normal numbers as near as sines are.
    """
    module: Any = sys.modules.get(RANDOM)
    held = {name: getattr(module, name) for name in (UNIFORM, NORMAL) if hasattr(module, name)}
    if len(held) < 2 or not hasattr(module, BITS):
        yield
        return

    def draw(name: str, shape: Any, key: Any, counter: Any, alg: Any, dtype: Any = tf.float32, **named: Any) -> Any:
        if dtype != tf.float32:
            return held[name](shape, key, counter, alg, dtype=dtype, **named)
        count = tf.reduce_prod(shape)
        bits = getattr(module, BITS)([count + count % 2], key, counter, alg, dtype=tf.uint32)
        return tf.reshape((make_normal if name == NORMAL else make_uniform)(bits)[:count], shape)

    for name in held:
        setattr(module, name, functools.partial(draw, name))
    try:
        yield
    finally:
        for name, own in held.items():
            setattr(module, name, own)


def make_uniform(bits: Any) -> Any:
    """Return float32 in [0, 1): the last 23 bits are the fraction of a number between 1 and 2."""
    fraction = tf.bitwise.bitwise_and(bits, tf.constant(0x7FFFFF, tf.uint32))
    return tf.bitcast(tf.bitwise.bitwise_or(fraction, tf.constant(0x3F800000, tf.uint32)), tf.float32) - 1.0


def make_normal(bits: Any) -> Any:
    """Use the method of Box and Muller: two of an even count of uniform numbers give two normal numbers."""
    pairs = tf.reshape(make_uniform(bits), [-1, 2])
    radius = tf.sqrt(-2.0 * tf.math.log(tf.maximum(pairs[:, :1], 1e-7)))
    angle = 2.0 * math.pi * pairs[:, 1:]
    return tf.reshape(tf.concat([tf.sin(angle), tf.cos(angle)], 1) * radius, [-1])


PROFILE = "dlc_runtime.profile.session"


def facts() -> dict[str, Any]:
    found: dict[str, Any] = {"framework": f"tensorflow {tf.__version__}", "device": device_name()}
    rank = read_rank(os.environ)
    if rank is not None:
        found["rank"] = rank
    return found


def device_name() -> str:
    names = [gpu.name for gpu in list_gpus()]
    return f"{len(names)} GPUs" if len(names) > 1 else "GPU" if names else "cpu"


def list_gpus() -> list[Any]:
    return list(tf.config.list_physical_devices("GPU"))


def read_rank(environ: Mapping[str, str]) -> int | None:
    """Read TF_CONFIG: the chief is 0, the workers follow. Return None if it says nothing."""
    try:
        config = json.loads(environ.get("TF_CONFIG", "{}"))
        kind, index = config["task"]["type"], int(config["task"]["index"])
        chiefs = len(config["cluster"].get("chief", []))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return index if kind == "chief" else index + chiefs if kind == "worker" else None


def take_memory_peak() -> int:
    """Return the most bytes of the first GPU since the last call; 0 without one, and while a profile measures them."""
    if list_gpus() and PROFILE not in sys.modules:
        with suppress(Exception):  # an old version, or a GPU that the script has hidden
            peak = int(tf.config.experimental.get_memory_info("GPU:0")["peak"])
            tf.config.experimental.reset_memory_stats("GPU:0")
            return peak
    return 0


def wait_for_devices() -> None:
    """Wait: what runs on a GPU goes on after its call returned."""
    sync = getattr(getattr(getattr(tf, "test", None), "experimental", None), "sync_devices", None)  # from 2.12 on
    if sync is not None and list_gpus():
        sync()
