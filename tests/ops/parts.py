"""Actors and callables of the operator tests. Module level, so that they can be shipped by name."""

import rillflow as rf


def everything(flow, engine="sim", **options):
    """All items of a flow that ends."""
    with flow.run(engine, **options) as run:
        return list(run)


class Count:
    """Gives 0, 1, 2, ... and its own name; weights are what it was last told."""

    def __init__(self, info):
        self.name = info.name
        self.n = -1
        self.weights = 0

    def next(self):
        self.n += 1
        return self.n

    def named(self):
        return self.name, self.next()

    def seen(self):
        return self.name, self.weights

    def set(self, weights):
        self.weights = weights


class Items:
    """Gives the items of a list, then ends."""

    def __init__(self, items):
        self.items = list(items)

    def next(self):
        if not self.items:
            raise rf.EndOfStream
        return self.items.pop(0)


class Total:
    """A stateful callable: the sum so far."""

    def __init__(self):
        self.total = 0

    def __call__(self, item):
        self.total += item
        return self.total


def double(x):
    return 2 * x
