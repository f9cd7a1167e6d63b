"""Reproducers of what is written in place: buffers, arguments, views of each other."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from reproducers.case import Case, Layered, reproduces


@reproduces(198131, "a buffer that was copied into another one before it is changed is copied after it")
def copied_then_changed() -> Any:
    def body(m: Any, y: Any) -> Any:
        m.last[0:, :] = m.mean[0:, :]
        m.mean.add_(y.detach())
        return y

    return Layered(body, last=torch.zeros(4, 8), mean=torch.ones(4, 8)), torch.randn(4, 8)


@reproduces(197829, "a queue that is moved by one row gets its first row in all rows")
def moved_queue() -> Any:
    def body(m: Any, y: Any) -> Any:
        m.queue[1:] = m.queue[:-1].clone()
        m.queue[0] = y.detach().mean(0)
        return y @ m.queue.T

    return Layered(body, queue=torch.randn(16, 8)), torch.randn(4, 8)


@reproduces(198033, "a foreach addition of a buffer turned over reads what it has written")
def foreach_of_a_turned_buffer() -> Any:
    def body(m: Any, y: Any) -> Any:
        torch._foreach_add_([m.kept], [m.kept.flip(0)])
        return y + m.kept

    return Layered(body, kept=torch.randn(8, 8)), torch.randn(8, 8)


@reproduces(198270, "after index_put_ an addition of a buffer turned over reads what it has written")
def turned_after_index_put() -> Any:
    def body(m: Any, y: Any) -> Any:
        m.kept.index_put_((torch.arange(8),), m.kept * 2.0)
        m.kept.add_(m.kept.flip(0))
        return y + m.kept

    return Layered(body, kept=torch.randn(8, 8)), torch.randn(8, 8)


@reproduces(183986, "index_add on an expanded tensor adds all rows to each")
def index_add_on_expanded() -> Any:
    def body(_m: Any, y: Any) -> Any:
        base = y[:1].expand(4, 8)
        return torch.index_add(base, 0, torch.tensor([0, 1, 0]), y[:3])

    return Layered(body), torch.randn(4, 8)


@reproduces(195422, "dropout that drops nothing returns its input; what is written into it is lost")
def dropout_as_alias() -> Any:
    def body(m: Any, y: Any) -> Any:
        z = functional.dropout(m.kept, 0.5, False)
        z += 1
        return y * m.kept

    return Layered(body, kept=torch.ones(4, 8)), torch.randn(4, 8)


@reproduces(174074, "rows that stand twice in an index are added twice")
def rows_added_twice() -> Any:
    def body(m: Any, y: Any) -> Any:
        m.kept[[0, 0]] += m.kept[[0, 0]]
        return y * m.kept

    return Layered(body, kept=torch.randn(4, 8)), torch.randn(4, 8)


@reproduces(138908, "rows that stand twice in an index tensor are added twice")
def indexed_rows_added_twice() -> Any:
    def body(m: Any, y: Any, index: Any) -> Any:
        m.kept[index] += m.kept[index] + y.detach().mean()
        return y * m.kept

    return Layered(body, kept=torch.randn(4, 8)), torch.randn(4, 8), torch.tensor([1, 1, 3])


@reproduces(198095, "a view of an argument that aliases another one is made from the wrong tensor")
def view_of_an_alias() -> Any:
    def body(_m: Any, y: Any, whole: Any, part: Any) -> Any:
        whole.add_(1)
        return y.sum() + whole.sum(), part[0]

    whole = torch.randn(4, 6)
    return Layered(body), torch.randn(4, 8), whole, whole[1:]


def alias_later() -> Any:
    one, base = torch.ones(8), torch.ones(12)
    x = torch.randn(4, 8)

    def body(_m: Any, y: Any, one: Any, two: Any) -> Any:
        one.mul_(2)
        return y * (one + two)

    return Case(Layered(body), [(x, one, torch.ones(8)), (x, base[:8], base[4:])])


reproduces(139789, "arguments that alias each other in a later step only are taken as if they did not")(alias_later)


@reproduces(191571, "rows gathered from a sum of one row are those before the sum")
def gathered_from_one_row() -> Any:
    def body(_m: Any, y: Any, index: Any) -> Any:
        total = torch.zeros(1, 8)
        total = total.scatter_add(0, index.unsqueeze(-1).expand(-1, 8), y)
        return torch.index_select(total, 0, index)

    return Layered(body), torch.randn(16, 8), torch.zeros(16, dtype=torch.long)


@reproduces(171493, "a sum by index_add_ is read before it is written")
def divided_by_a_sum() -> Any:
    def body(_m: Any, y: Any, index: Any) -> Any:
        squares = y.square() + 0.01
        total = torch.zeros(1, 8).index_add(0, index, squares)
        return squares / (total[index] + 1e-6)

    return Layered(body), torch.randn(64, 8), torch.zeros(64, dtype=torch.long)


@reproduces(198101, "a view as other numbers is read after the tensor has changed")
def read_as_other_numbers() -> Any:
    def body(m: Any, y: Any) -> Any:
        halves = m.kept.view(torch.int32) * 2
        halves.sub_(-4)
        m.kept[:, 2:5] = 2
        return y * 2, halves.view(torch.int64)

    return Layered(body, kept=torch.arange(24).view(4, 6)), torch.randn(4, 8)
