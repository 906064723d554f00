"""Questions of many, answered together: what comes within a moment is one pass of the network."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rillflow.errors import RunError
from rillflow.policies.make import make_actor
from rillflow.policies.spec import PolicySpec

Array = NDArray[Any]
EPSILON = 0.05
"""how often q values are not followed if actions are sampled (Mnih et al. 2015)"""
MOST_ROWS = 4096
"""of one pass"""
_WAITING_ROWS = 65_536
"""of all questions that are not answered yet"""
SESSIONS = 10_000
"""whose memory is kept: those that asked last"""


@dataclass
class Question:
    """Some observations, and where their actions go."""

    rows: Array
    """[B, *shape]"""
    sessions: Sequence[str] = ()
    """of a policy that remembers: whose each is"""
    starts: Sequence[bool] = ()
    """where an episode begins"""
    answer: Future[Array] = field(default_factory=Future)


class FullError(Exception):
    """More is asked than can be answered."""


class Batcher:
    """Acts, on a thread of its own.

    Args:
        spec: of the policy.
        weights: of the policy.
        window: seconds to wait for others after the first question.
        sampled: whether actions are drawn; else the most likely ones.
    """

    def __init__(
        self, spec: PolicySpec, weights: Any, window: float = 0.001, *, sampled: bool = False
    ) -> None:
        self.spec, self.window, self.sampled = spec, window, sampled
        self.passes = self.rows = 0
        """how often the network ran, and on how many observations in all"""
        self._policy: Any = make_actor(spec, 0)
        self._policy.set_weights(weights)
        self._memories: OrderedDict[str, Array] = OrderedDict()
        self._questions: deque[Question] = deque()
        self._waiting = 0
        self._over = False
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="serve-batches", daemon=True)
        self._thread.start()

    def ask(self, question: Question) -> Future[Array]:
        """Actions for the rows of a question, once they are known."""
        with self._news:
            if self._over:
                raise RunError("the server has been closed.")
            if self._waiting + len(question.rows) > _WAITING_ROWS:
                raise FullError
            self._waiting += len(question.rows)
            self._questions.append(question)
            self._news.notify()
        return question.answer

    def forget(self, session: str) -> bool:
        """Whether there was a memory of this session; there is none now."""
        with self._news:
            return self._memories.pop(session, None) is not None

    def close(self) -> None:
        """Answer no more; whoever waits hears that."""
        with self._news:
            self._over = True
            self._news.notify()
        self._thread.join()
        while self._questions:
            question = self._questions.popleft()
            question.answer.set_exception(RunError("the server has been closed."))

    # -- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._news:
                while not self._questions and not self._over:
                    self._news.wait()
                if self._over:
                    return
            questions = self._together()
            try:
                self._answer(questions)
            except Exception as error:  # the next may be better
                for question in questions:
                    if not question.answer.done():
                        question.answer.set_exception(error)

    def _together(self) -> list[Question]:
        """What is asked within the window, as far as one pass goes and sessions do not repeat."""
        until = time.monotonic() + self.window
        with self._news:
            while (left := until - time.monotonic()) > 0:
                if sum(len(question.rows) for question in self._questions) >= MOST_ROWS:
                    break
                self._news.wait(left)
                if self._over:
                    break
            taken: list[Question] = []
            count, busy = 0, set[str]()
            while self._questions:
                following = self._questions[0]
                if taken and count + len(following.rows) > MOST_ROWS:
                    break
                if busy & set(following.sessions):
                    break  # it goes on from what the one before it leaves
                taken.append(self._questions.popleft())
                count += len(following.rows)
                busy |= set(following.sessions)
            self._waiting -= count
            return taken

    def _answer(self, questions: list[Question]) -> None:
        rows = np.concatenate([question.rows for question in questions])
        self.passes += 1
        self.rows += len(rows)
        actions = self._remembering(questions, rows) if self.spec.recurrent else self._acts(rows)
        begin = 0
        for question in questions:
            end = begin + len(question.rows)
            question.answer.set_result(actions[begin:end])
            begin = end

    def _acts(self, rows: Array) -> Array:
        if not self.sampled:
            greedy: Array = self._policy.greedy(rows)
            return greedy
        options = {"epsilon": EPSILON} if self.spec.head == "q" else {}
        actions: Array = self._policy.act(rows, **options)[0]
        return actions

    def _remembering(self, questions: list[Question], rows: Array) -> Array:
        sessions = [name for question in questions for name in question.sessions]
        starts = np.asarray([start for question in questions for start in question.starts])
        with self._news:
            known = [self._memories.get(name) for name in sessions]
        memory = self._policy.initial_state(len(rows))
        for place, own in enumerate(known):
            if own is None:
                starts[place] = True
            else:
                memory[place] = own
        if self.sampled:
            options = {"epsilon": EPSILON} if self.spec.head == "q" else {}
            actions, _, after = self._policy.act_recurrent(rows, memory, starts, **options)
        else:
            actions, after = self._policy.greedy_recurrent(rows, memory, starts)
        with self._news:
            for name, own in zip(sessions, after, strict=True):
                self._memories[name] = np.array(own)
                self._memories.move_to_end(name)
            while len(self._memories) > SESSIONS:
                self._memories.popitem(last=False)
        found: Array = actions
        return found
