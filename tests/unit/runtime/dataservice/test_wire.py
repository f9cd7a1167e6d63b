"""What comes over a connection is checked before it is used: any bytes give a value or a ProtocolError."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dlc_channel import keys
from dlc_runtime.dataservice.errors import ProtocolError, RefusedError, UnsupportedBatchError
from dlc_runtime.dataservice.server import consumer_connection
from dlc_runtime.dataservice.wire import control_rpc, frames, serialization
from harness.examples import examples

TOKEN = b"a token"
SCALARS = st.one_of(
    *(st.text(max_size=20), st.integers(), st.floats(allow_nan=False), st.booleans(), st.none(), st.binary()),
    st.complex_numbers(allow_nan=False),
)
KEYS = st.one_of(st.text(max_size=5), st.integers())
BATCHES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.lists(inner, max_size=4).map(tuple), st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=12,
)
JSON = st.recursive(
    st.one_of(st.integers(), st.text(max_size=3), st.sampled_from([*"tldnvcTAB", "float32"])),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=10,
)


def through(batch: Any) -> Any:
    """Packed, described, and built again from bytes."""
    packed = serialization.pack(batch)
    schema = serialization.read_schema(packed.schema, 1 << 20)
    assert schema.size == sum(part.nbytes for part in packed.parts)
    return serialization.unpack(schema, [bytes(part) for part in packed.parts], packed.extras)


@examples(100)
@given(BATCHES.filter(lambda batch: b"" not in flat(batch)))
def test_any_nesting_of_values_comes_out_as_it_went_in(batch: Any) -> None:
    found = through(batch)
    assert found == batch
    assert repr(found) == repr(batch)  # also the types: 1 and True are equal, a list and a tuple are not


def flat(batch: Any) -> list[Any]:
    if isinstance(batch, dict):
        batch = list(batch.values())
    return [leaf for child in batch for leaf in flat(child)] if isinstance(batch, (list, tuple)) else [batch]


@pytest.mark.parametrize(
    ("batch", "place"),
    [
        ({"a": [1, object()]}, r"batch\['a'\]\[1\]: a builtins.object"),
        ([{1.5: 1}], r"batch\[0\]: keys of a mapping"),
        ((1, {2, 3}), r"batch\[1\]: a builtins.set"),
        (["x" * (frames.MOST_TEXT + 1)], "text and numbers takes"),
    ],
)
def test_what_does_not_travel_is_named_by_its_place(batch: Any, place: str) -> None:
    with pytest.raises(UnsupportedBatchError, match=place):
        serialization.pack(batch)


def test_nesting_without_end_is_refused() -> None:
    batch: list[Any] = []
    batch.append(batch)
    with pytest.raises(UnsupportedBatchError, match="nested more than"):
        serialization.pack((batch,))


@examples(100)
@example(b'["A",0,""]', [])
@given(st.one_of(st.binary(max_size=60), JSON.map(lambda value: json.dumps(value).encode())), JSON)
def test_any_description_is_read_or_refused(text: bytes, values: Any) -> None:
    """A description that was read builds a batch, or is refused with its values."""
    try:
        schema = serialization.read_schema(text, 1000)
        serialization.unpack(schema, [b""] * len(schema.arrays), json.dumps(values).encode())
    except ProtocolError:
        return
    assert schema.size <= 1000


@pytest.mark.parametrize(
    "tree",
    [
        ["T", "float32", [-1]],
        ["T", "float32", [1 << 40, 1 << 40]],
        ["T", "object", [1]],
        ["T", "float32", ["1"]],
        ["B", "", [1, 2]],
        ["n", "x y", ["a"], [["v"]]],
        ["n", "Pair", ["__class__"], [["v"]]],
        ["n", "Pair", ["a", "a"], [["v"], ["v"]]],
        ["d", [[[1], ["v"]]]],
        ["pickle", "x"],
    ],
)
def test_descriptions_that_would_do_harm_are_refused(tree: Any) -> None:
    with pytest.raises(ProtocolError):
        serialization.read_schema(json.dumps(tree).encode(), 1 << 20)


@examples(100)
@given(st.binary(min_size=frames.FRAME, max_size=frames.FRAME))
def test_any_header_is_within_the_bounds_or_refused(data: bytes) -> None:
    try:
        frame = frames.read_frame(data, 1000)
    except ProtocolError:
        return
    assert frame.size <= 1000 + frames.MOST_TEXT
    assert frame.packed() == data


@pytest.mark.parametrize(
    "frame",
    [
        frames.Frame(9, 0, 0, 0),
        frames.Frame(frames.BATCH, 0, 0, 1001 + frames.MOST_TEXT),
        frames.Frame(frames.SCHEMA, 0, 0, frames.MOST_TEXT + 1),
        frames.Frame(frames.BATCH, 0, 0, 10, extras=11),
        frames.Frame(frames.BATCH, 0, 0, 10, schema=frames.MOST_SCHEMAS),
    ],
)
def test_a_header_beyond_a_bound_is_refused(frame: frames.Frame) -> None:
    with pytest.raises(ProtocolError):
        frames.read_frame(frame.packed(), 1000)


@pytest.mark.parametrize("character", ["x", "\U0001f600", "\x01", "\udc80"])
def test_an_error_of_any_text_fits_its_frame(character: str) -> None:
    text = consumer_connection.failure_message(ValueError(character * 200_000), "algo-1", 0, [1])
    frame = frames.Frame(frames.ERROR, 0, 0, len(text))
    assert frames.read_frame(frame.packed(), 1000) == frame
    assert json.loads(text)["message"] == character * consumer_connection.MOST_TRACEBACK


def test_a_call_is_bound_to_its_method_its_nonce_and_its_words() -> None:
    nonce = keys.new_nonce()
    call = control_rpc.seal_call(TOKEN, nonce, control_rpc.STATUS, {"a": 1})
    assert control_rpc.open_call(TOKEN, call, control_rpc.STATUS) == {"a": 1}
    for changed in (call[:-1] + b"]", bytes([call[0] ^ 1]) + call[1:], call[:40]):
        with pytest.raises(RefusedError):
            control_rpc.open_call(TOKEN, changed, control_rpc.STATUS)
    with pytest.raises(RefusedError):
        control_rpc.open_call(TOKEN, call, control_rpc.STOP)
    with pytest.raises(RefusedError):
        control_rpc.open_reply(TOKEN, nonce, control_rpc.STATUS, call[keys.NONCE_BYTES :])  # a call is no reply
