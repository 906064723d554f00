"""A3C, PPO, IMPALA and Ape-X as loops written by hand.

The same workers, policies, learner and replay actors as the plans in `rillflow.algorithms`, the
same batches, broadcasts and bounds on what is under way; no graph and no scheduler. Learners that
work beside the loop have a thread, as in the paper; one of IMPALA's loops learns by itself. `step`
is one result of training.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from functools import partial
from typing import Any

import numpy as np
from channel_by_hand import Channel

from rillflow.errors import NotReady
from rillflow.experience.batch import SampleBatch
from rillflow.learning.make_learner import make_learner
from rillflow.learning.results import Learned
from rillflow.rl.metrics import Progress
from rillflow.rl.replay_actor import ReplayActor
from rillflow.rl.rollout_worker import RolloutWorker
from rillflow.rl.workers import Workers
from rillflow.types import ActorInfo, Ref


class Loop:
    """What the four share: workers, a learner, the newest weights."""

    worker_class: Any = RolloutWorker

    def __init__(self, channel: Channel, config: Any, seed: int) -> None:
        self.channel = channel
        workers = Workers(config)
        self.cfg, spec = workers.config, workers.spec
        self.progress = Progress()
        self.learner = make_learner(spec, self.cfg, seed)
        self.version = 0
        self.weights: Any = channel.put(self.learner.get_weights())
        infos = [_info("worker", i, seed) for i in range(config.num_workers)]
        self.workers = channel.start([partial(self.worker_class, self.cfg, spec, i) for i in infos])
        for worker in self.workers:
            channel.tell(worker, "set_weights", self.weights)

    def step(self) -> Any:
        """Until the next result of training."""
        raise NotImplementedError

    def record(self, worker: int, metrics: Any) -> None:
        """Count steps and episodes, as a run of a flow does."""
        if metrics is not None:
            self.progress.record("worker", 0, metrics)

    def close(self) -> None:
        self.channel.close()


def _info(name: str, index: int, seed: int) -> ActorInfo:
    return ActorInfo(f"{name}-{index}", index, incarnation=0, seed=seed + index, run_seed=seed)


class GradientWorker(RolloutWorker):
    """Samples and computes gradients in one call."""

    def sample_and_grad(self) -> Any:
        return self.compute_gradients(self.sample())


class A3C(Loop):
    """Gradients as they come; new weights to whoever made them."""

    worker_class = GradientWorker

    def __init__(self, channel: Channel, config: Any, seed: int) -> None:
        super().__init__(channel, config, seed)
        self.ready: deque[Any] = deque()
        for worker in self.workers:
            channel.ask(worker, "sample_and_grad")

    def step(self) -> Any:
        while not self.ready:
            self.ready.extend(self.channel.answers(block=True))
        worker, metrics, gradients = self.ready.popleft()
        self.record(worker, metrics)
        result = self.learner.apply_gradients(gradients.get())
        weights = self.channel.put(self.learner.get_weights())
        self.channel.tell(worker, "set_weights", weights)
        self.channel.ask(worker, "sample_and_grad")
        return result


class PPO(Loop):
    """Rounds of rollouts, joined, learned in minibatches; new weights to all."""

    def step(self) -> Any:
        rounds: list[SampleBatch] = []
        while sum(np.prod(batch.shape) for batch in rounds) < self.cfg.train_batch_size:
            rounds.append(self._round())
        learned = self.learner.learn(
            SampleBatch.concat(rounds), self.cfg.num_sgd_iter, self.cfg.sgd_minibatch_size
        )
        weights = self.channel.put(learned.weights)
        for worker in self.workers:
            self.channel.tell(worker, "set_weights", weights)
        return learned

    def _round(self) -> SampleBatch:
        parts: dict[int, Ref] = {}
        for worker in self.workers:
            self.channel.ask(worker, "sample")
        while len(parts) < len(self.workers):
            for worker, metrics, item in self.channel.answers(block=True):
                self.record(worker, metrics)
                parts[worker] = item
        return SampleBatch.concat([parts[worker].get() for worker in self.workers])


class LearnerThread(threading.Thread):
    """Learns from what is put in; results come out with whatever was put in beside the batch."""

    def __init__(self, learner: Any, channel: Channel, weights_every: int) -> None:
        super().__init__(daemon=True)
        self.learner = learner
        self.weights_every = weights_every
        self.channel = channel
        self.batches: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.results: deque[tuple[Learned | Exception, Any]] = deque()
        self.under_way = 0
        """batches put in whose results nobody has taken yet"""
        self.start()

    def run(self) -> None:
        try:
            while (job := self.batches.get()) is not None:
                batch, beside = job
                learned = self.learner.learn(
                    batch.get() if isinstance(batch, Ref) else batch,
                    with_weights=self.learner.version % self.weights_every == 0,
                )
                self.results.append((learned, beside))
                self.channel.wake()
        except Exception as error:
            self.results.append((error, None))
            self.channel.wake()

    def put(self, batch: SampleBatch | Ref, beside: Any = None) -> None:
        self.under_way += 1
        self.batches.put((batch, beside))

    def take(self) -> tuple[Learned, Any]:
        self.under_way -= 1
        learned, beside = self.results.popleft()
        if isinstance(learned, Exception):
            raise learned
        return learned, beside


class WithThread(Loop):
    """A loop whose learner has a thread of its own."""

    def __init__(self, channel: Channel, config: Any, seed: int) -> None:
        super().__init__(channel, config, seed)
        self.thread = LearnerThread(self.learner, channel, getattr(config, "weights_every", 1))
        self.fragments: deque[Any] = deque()
        self.newest: Learned | None = None
        self.sent = dict.fromkeys(self.workers, 0)

    def send_weights(self, worker: int) -> None:
        """The newest, serialised once, unless the worker has them."""
        if self.newest is not None:
            self.weights, self.version = self.channel.put(self.newest.weights), self.newest.version
            self.newest = None
        if self.sent[worker] != self.version:
            self.sent[worker] = self.version
            self.channel.tell(worker, "set_weights", self.weights)

    def close(self) -> None:
        self.thread.batches.put(None)
        self.thread.join()
        super().close()


class IMPALA(WithThread):
    """Fragments as they come, answered with the newest weights; a learner on its own thread."""

    def __init__(self, channel: Channel, config: Any, seed: int) -> None:
        super().__init__(channel, config, seed)
        self.parts: list[SampleBatch] = []
        self.most = 2 * config.learner_queue_size  # the queue before the learner and that behind it
        for _ in range(config.max_sample_requests_in_flight_per_worker):
            for worker in self.workers:
                channel.ask(worker, "sample")

    def step(self) -> Any:
        while True:
            if self.fragments and self.thread.under_way < self.most:
                self._take(*self.fragments.popleft())
            elif self.thread.results:
                learned, _ = self.thread.take()
                self.newest = learned
                return learned
            else:
                self.fragments.extend(self.channel.answers(block=True))

    def _take(self, worker: int, metrics: Any, item: Ref) -> None:
        self.record(worker, metrics)
        self.send_weights(worker)
        self.parts.append(item.get())
        if sum(np.prod(batch.shape) for batch in self.parts) >= self.cfg.train_batch_size:
            self.thread.put(SampleBatch.concat(self.parts))
            self.parts = []
        self.channel.ask(worker, "sample")


class IMPALAAtOnce(Loop):
    """Fragments as they come, answered with the newest weights, and learned from at once."""

    def __init__(self, channel: Channel, config: Any, seed: int) -> None:
        super().__init__(channel, config, seed)
        self.fragments: deque[Any] = deque()
        self.parts: list[SampleBatch] = []
        for _ in range(config.max_sample_requests_in_flight_per_worker):
            for worker in self.workers:
                channel.ask(worker, "sample")

    def step(self) -> Any:
        while True:
            while not self.fragments:
                self.fragments.extend(self.channel.answers(block=True))
            worker, metrics, item = self.fragments.popleft()
            self.record(worker, metrics)
            self.channel.tell(worker, "set_weights", self.weights)
            self.parts.append(item.get())
            self.channel.ask(worker, "sample")
            if sum(np.prod(batch.shape) for batch in self.parts) >= self.cfg.train_batch_size:
                learned = self.learner.learn(SampleBatch.concat(self.parts))
                self.parts = []
                self.weights = self.channel.put(learned.weights)
                return learned


class AskedReplay(ReplayActor):
    """Answers with nothing before it is ready."""

    def replay_or_nothing(self) -> SampleBatch | None:
        try:
            return self.replay()
        except NotReady:
            return None

    def update(self, keys_and_priorities: Any) -> None:
        self.update_priorities(*keys_and_priorities)


class ApeX(WithThread):
    """Rollouts into replay actors, a learner on its own thread, priorities back to replay."""

    def __init__(self, channel: Channel, config: Any, seed: int) -> None:
        super().__init__(channel, config, seed)
        infos = [_info("replay", i, seed) for i in range(config.num_replay_buffer_shards)]
        options = self.cfg.replay_options
        self.replay = channel.start([partial(AskedReplay, **options, info=i) for i in infos])
        self.batches: deque[tuple[int, Ref]] = deque()
        self.cold = dict.fromkeys(self.replay, 0)
        """how often each replay actor has said that it is not ready"""
        self.warm: set[int] = set()
        """replay actors that have given a batch"""
        self.turn = 0
        self.turns = self.cfg.train_turns / config.num_workers
        self.owed = 0.0
        """results to take before the next fragment is"""
        self.since = dict.fromkeys(self.workers, 0)
        self.most = 2 * config.learner_queue_size
        for _ in range(2):
            for worker in self.workers:
                channel.ask(worker, "sample")
        for _ in range(max(1, 4 // config.batches_per_draw)):
            for shard in self.replay:
                channel.ask(shard, "replay_or_nothing")

    def step(self) -> Any:
        while True:
            while self.batches and self.thread.under_way < self.most:
                shard, batch = self.batches.popleft()
                self.thread.put(batch, shard)
                self.channel.ask(shard, "replay_or_nothing")
            if self.thread.results and self.owed >= 1.0:
                return self._learned(*self.thread.take())
            if self.fragments and (self.owed < 1.0 or not self.warm):
                self._store(*self.fragments.popleft())
            else:
                self._answers()

    def _answers(self) -> None:
        for actor, metrics, item in self.channel.answers(block=True):
            if actor in self.since:
                self.fragments.append((actor, metrics, item))
            elif actor not in self.warm and item.get() is None:
                self.cold[actor] += 1
            else:
                self.warm.add(actor)
                self.batches.append((actor, item))

    def _store(self, worker: int, metrics: Any, item: Ref) -> None:
        self.record(worker, metrics)
        shard = self.replay[self.turn]
        self.turn = (self.turn + 1) % len(self.replay)
        self.channel.tell(shard, "add", item)
        while self.cold[shard]:
            self.cold[shard] -= 1
            self.channel.ask(shard, "replay_or_nothing")
        self.since[worker] += self.cfg.fragment_steps
        if self.since[worker] >= self.cfg.max_weight_sync_delay:
            self.since[worker] = 0
            self.send_weights(worker)
        self.channel.ask(worker, "sample")
        self.owed = self.owed + self.turns if self.warm else self.turns

    def _learned(self, learned: Learned, shard: int) -> Learned:
        self.owed -= 1.0
        told = learned.rows["keys"], np.abs(learned.rows["td_errors"])
        self.channel.tell(shard, "update", self.channel.put(told))
        if learned.weights is not None:
            self.newest = learned
        return learned


LOOPS: dict[str, type[Loop]] = {
    "a3c": A3C,
    "ppo": PPO,
    "impala": IMPALA,
    "impala_at_once": IMPALAAtOnce,
    "apex": ApeX,
}
