"""A shuffled order that needs no memory: every position is computed alone, equally on every host. Pure.

A list of a permutation would cost every worker eight bytes per sample. Here a Feistel network permutes the smallest
power of four that holds the numbers, and a number that falls outside is permuted again until it falls inside.
"""

from __future__ import annotations

import hashlib

ROUNDS = 6
_MASK = (1 << 64) - 1


class Permutation:
    """A permutation of range(count), decided by the key alone."""

    def __init__(self, count: int, *key: int) -> None:
        self.count = count
        self._half = max(1, ((count - 1).bit_length() + 1) // 2)
        text = ",".join(map(str, (count, *key))).encode()
        digest = hashlib.blake2b(text, digest_size=8 * ROUNDS, person=b"dlc order").digest()
        self._keys = [int.from_bytes(digest[at : at + 8], "little") for at in range(0, len(digest), 8)]

    def __getitem__(self, position: int) -> int:
        if not 0 <= position < self.count:
            raise IndexError(position)
        number = self._permuted(position)
        while number >= self.count:
            number = self._permuted(number)
        return number

    def _permuted(self, number: int) -> int:
        half = self._half
        low = (1 << half) - 1
        left, right = number >> half, number & low
        for key in self._keys:
            mixed = (right ^ key) * 0xBF58476D1CE4E5B9 & _MASK
            mixed = (mixed ^ mixed >> 29) * 0x94D049BB133111EB & _MASK
            left, right = right, left ^ (mixed >> 32 & low)
        return left << half | right
