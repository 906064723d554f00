"""Small flows for the traces. Actors never run here: what they answer is written in the script."""

import rillflow as rf


class Worker:
    def next(self):
        raise AssertionError("a scripted actor does no work")

    def set(self, weights):
        raise AssertionError("a scripted actor handles no message")


def workers(count=2, name="worker", **options):
    return rf.Actors.of(Worker, count, name=name, **options)


class Publish(rf.Operator):
    """Sends a new version of the weights to the sources of each item."""

    def __init__(self):
        self.version = 0

    def __call__(self, item, ctx):
        self.version += 1
        ctx.send(ctx.sources, "set", self.version, version=self.version)
        return item


class Broadcast(rf.Operator):
    """Sends a new version of the weights to a whole group for each item."""

    def __init__(self, group):
        self.group = group
        self.version = 0

    def __call__(self, item, ctx):
        self.version += 1
        ctx.send(self.group, "set", self.version, version=self.version)
        return item


def told(actor, version):
    return ("tell", actor, "set", (version,), version)


def asked(actor, *seqs):
    return [("request", actor, seq) for seq in seqs]
