"""What would this flow do on 64 workers? Ask before paying for them."""

import time

import rillflow as rf


class Simulator:
    """An environment that takes 5 ms per sample."""

    def sample(self) -> int:
        time.sleep(0.005)
        return 1


def learn(sample: int) -> int:
    """A learner that takes 1 ms per sample."""
    time.sleep(0.001)
    return sample


flow = rf.from_actors(rf.Actors.of(Simulator, 2), "sample").gather_async().for_each(learn)
print(rf.simulate(flow, workers=[1, 2, 4, 8, 16, 64], measure_seconds=1.0))
