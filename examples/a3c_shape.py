"""The shape of A3C: parallel gradients, gathered as ready, new weights to whoever made them."""

import rillflow as rf


class Worker:
    """Pulls its weights towards 1."""

    def __init__(self, info: rf.ActorInfo) -> None:
        self.weights, self.name = 0.0, info.name

    def gradient(self) -> float:
        return 1.0 - self.weights

    def set_weights(self, weights: float) -> None:
        self.weights = weights


class Apply(rf.Operator[float, float]):
    """Apply a gradient, then send the new weights to the worker that made it."""

    def __init__(self) -> None:
        self.weights, self.version = 0.0, 0

    def __call__(self, gradient: float, ctx: rf.Context) -> float:
        self.weights += 0.1 * gradient
        self.version += 1
        ctx.send(ctx.sources, "set_weights", self.weights, version=self.version)
        return self.weights


workers = rf.Actors.of(Worker, 4, name="worker")
flow = rf.from_actors(workers, "gradient").gather_async().for_each(Apply())

print(flow.explain())
with flow.run("local", seed=0) as run:
    for _step, weights in zip(range(200), run, strict=False):
        pass
    print(f"\nweights: {weights:.3f}", run.stats(), run.ledger(), sep="\n\n")
