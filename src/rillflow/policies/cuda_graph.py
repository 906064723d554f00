"""What a function does on a CUDA device, recorded once and replayed with one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def recorded(
    function: Callable[..., tuple[Tensor, ...]], inputs: Sequence[Tensor]
) -> tuple[Callable[[], None], tuple[Tensor, ...]]:
    """What replays a function on these very inputs, and the outputs that it writes to.

    It reads the inputs, and the weights behind it, where they lay when it was recorded: who has
    new ones copies them there. The function must not look at numbers on the way, nor draw any.
    """
    before = torch.cuda.current_stream()
    stream: Any = torch.cuda.Stream
    aside = stream()
    aside.wait_stream(before)  # the inputs are on their way there
    with torch.cuda.stream(aside):
        function(*inputs)  # what libraries set up for a stream is not part of what is recorded
    before.wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    try:
        # a learner in another thread of this process may allocate memory meanwhile
        with torch.cuda.graph(graph, stream=aside, capture_error_mode="thread_local"):
            outputs = function(*inputs)
    except BaseException:
        torch.cuda.set_stream(before)  # torch leaves the other one behind when recording fails
        raise
    return graph.replay, outputs
