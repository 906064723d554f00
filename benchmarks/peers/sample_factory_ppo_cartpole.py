"""Sample Factory: asynchronous PPO on CartPole-v1 with the settings of its own documentation.

Two rollout workers, one for each core. Rewards are scaled for learning only; what it reports as the
mean of the last 100 episodes is of whole rewards.
"""

from __future__ import annotations

import shutil
import tempfile
from importlib.metadata import version
from typing import Any

from _driver import Tracker, arguments, emit, quit_now

options = arguments()
SETTINGS = {
    "use_rnn": False,
    "num_workers": 2,
    "num_envs_per_worker": 20,
    "policy_workers_per_policy": 1,
    "recurrence": 1,
    "with_vtrace": False,
    "batch_size": 512,
    "reward_scale": 0.1,
}
ENDLESS = 10**9


def make(_name: str, _config: Any = None, _env_config: Any = None, render_mode: Any = None) -> Any:
    """One copy, in whichever process asks for it."""
    import gymnasium

    return gymnasium.make("CartPole-v1", render_mode=render_mode)


if __name__ == "__main__":
    from sample_factory.algo.runners.runner import AlgoObserver
    from sample_factory.algo.utils.misc import ExperimentStatus
    from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
    from sample_factory.envs.env_utils import register_env
    from sample_factory.train import make_runner
    from sample_factory.utils.utils import log

    tracker = Tracker(options.budget)

    class Watch(AlgoObserver):  # type: ignore[misc]
        """Looks after each update, and ends the run."""

        def on_training_step(self, runner: Any, _: int) -> None:
            steps = runner.env_steps.get(0, 0)
            tracker.mark(steps)
            returns = runner.policy_avg_stats.get("reward")
            if returns and len(returns[0]) >= 100:
                tracker.mean(sum(returns[0]) / len(returns[0]), steps)
            if tracker.done:
                runner.cfg.train_for_env_steps = 0

    log.setLevel("ERROR")
    register_env("CartPole-v1", make)
    folder = tempfile.mkdtemp()
    fixed = {
        "env": "CartPole-v1",
        "algo": "APPO",
        "seed": options.seed,
        "device": "cpu",
        "train_dir": folder,
        "experiment": "bench",
        "stats_avg": 100,
        "restart_behavior": "overwrite",
        "train_for_env_steps": ENDLESS,
        "save_every_sec": 100_000,
        "experiment_summaries_interval": 1000,
        "decorrelate_envs_on_one_worker": False,
        "decorrelate_experience_max_seconds": 0,
    }
    flags = [f"--{name}={value}" for name, value in {**fixed, **SETTINGS}.items()]
    parser, _ = parse_sf_args(argv=flags)
    _, runner = make_runner(parse_full_cfg(parser, flags))
    runner.register_observer(Watch())
    tracker.start()
    if runner.init() == ExperimentStatus.SUCCESS:
        runner.run()
    shutil.rmtree(folder, ignore_errors=True)
    emit(
        "sample_factory",
        variant="docs",
        seed=options.seed,
        version=version("sample-factory"),
        **tracker.fields(),
    )
    quit_now()
