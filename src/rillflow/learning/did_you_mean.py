"""What settings and flags are called elsewhere: who types one of these names is told ours."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence

_OURS: dict[str, tuple[str, ...]] = {
    "learning_rate": ("lr",),
    "actor_lr": ("lr",),
    "n_steps": ("n_step", "rollout_fragment_length"),
    "num_steps": ("rollout_fragment_length",),
    "rollout_length": ("rollout_fragment_length",),
    "n_envs": ("num_envs_per_worker",),
    "num_envs": ("num_envs_per_worker",),
    "num_envs_per_env_runner": ("num_envs_per_worker",),
    "num_env_runners": ("num_workers",),
    "n_workers": ("num_workers",),
    "batch_size": ("sgd_minibatch_size", "train_batch_size"),
    "num_minibatches": ("sgd_minibatch_size", "train_batch_size"),
    "minibatch_size": ("sgd_minibatch_size", "train_batch_size"),
    "n_epochs": ("num_sgd_iter",),
    "num_epochs": ("num_sgd_iter",),
    "update_epochs": ("num_sgd_iter",),
    "clip_range": ("clip_param",),
    "clip_coef": ("clip_param",),
    "ent_coef": ("entropy_coef", "initial_alpha"),
    "entropy_coeff": ("entropy_coef", "initial_alpha"),
    "vf_coef": ("vf_loss_coef",),
    "vf_loss_coeff": ("vf_loss_coef",),
    "gae_lambda": ("lambda_",),
    "max_grad_norm": ("grad_clip",),
    "discount": ("gamma",),
    "net_arch": ("hidden",),
    "hidden_sizes": ("hidden",),
    "policy_kwargs": ("hidden",),
    "activation_fn": ("activation",),
    "policy": ("model",),
    "network": ("model",),
    "replay_buffer_size": ("buffer_size",),
    "target_update_interval": ("target_network_update_freq",),
    "target_network_frequency": ("target_network_update_freq",),
    "exploration_fraction": ("epsilon_timesteps",),
    "exploration_final_eps": ("final_epsilon",),
    "train_freq": ("training_intensity",),
    "train_frequency": ("training_intensity",),
    "gradient_steps": ("training_intensity",),
    "anneal_lr": ("final_lr",),
    "device": ("num_gpus",),
    "num_gpus_per_env_runner": ("num_gpus_per_worker",),
    "num_gpus_per_learner": ("num_gpus",),
    "worker_device": ("num_gpus_per_worker",),
    "acting_device": ("num_gpus_per_worker",),
    "actor_device": ("num_gpus_per_worker",),
    "inference_device": ("num_gpus_per_worker",),
    "act_on_gpu": ("num_gpus_per_worker",),
    "cuda": ("num_gpus",),
    "eval_freq": ("eval_every",),
    "eval_interval": ("eval_every",),
    "n_eval_episodes": ("eval_episodes",),
    "evaluation_interval": ("eval_every",),
    "evaluation_duration": ("eval_episodes",),
}
"""by the name elsewhere: ours, of which the first counts that an algorithm has"""
_FLAGS = {
    "gpu": "num_gpus", "gpus": "num_gpus", "use_gpu": "num_gpus", "epochs": "num_sgd_iter",
    "logdir": "run_dir", "log_dir": "run_dir", "save_dir": "run_dir", "output_dir": "run_dir",
    "out_dir": "run_dir", "exp_name": "name", "experiment_name": "name", "run_name": "name",
    "verbose": "plain", "silent": "quiet", "track": "wandb", "wandb_project": "wandb",
    "wandb_project_name": "wandb", "capture_video": "record_every", "video": "record_every",
    "save_freq": "checkpoint_steps", "checkpoint_freq": "checkpoint_steps",
    "checkpoint_every": "checkpoint_steps", "load": "init_from", "pretrained": "init_from",
    "restore": "init_from", "load_model": "init_from", "num_seeds": "seeds", "dashboard": "view",
    "ray_address": "address", "parallel": "num_workers", "n_jobs": "num_workers",
    "workers": "num_workers",
}  # fmt: skip
"""flags by the name elsewhere, beside those of settings"""
_STEPS = {"total_timesteps", "timesteps", "total_steps", "num_timesteps", "n_timesteps",
          "steps", "max_steps", "num_env_steps", "timesteps_total", "stop"}  # fmt: skip
"""how long to train, which is no setting here"""


def our_name(name: str, known: Collection[str]) -> str | None:
    """The setting among those known that somebody means; None: nobody can tell.

    >>> our_name("learning_rate", {"lr", "lambda_"}), our_name("lamda", {"lr", "lambda_"})
    ('lr', 'lambda_')
    """
    plain = _plain(name)
    names = (*_OURS.get(plain, ()), *((_FLAGS[plain],) if plain in _FLAGS else ()))
    meant = next((ours for ours in names if ours in known), None)
    return meant or next(iter(difflib.get_close_matches(name, known, n=1)), None)


def instead_of(name: str, known: Collection[str]) -> str:
    """What to say after a setting that there is not: the one that is meant, if anybody can tell."""
    if means_steps(name):
        return ": how long to train is said by until={'steps': 50_000}"
    near = our_name(name, known)
    return f", did you mean {near!r}?" if near else ""


def nearest_flag(flag: str, known: Sequence[str]) -> str:
    """What to say of an unknown flag.

    >>> nearest_flag("--num-worker", ["--num-workers", "--lr"])
    'unknown flag --num-worker, did you mean --num-workers?'
    """
    name = flag.partition("=")[0]
    if means_steps(name) and "--until" in known:
        return f"unknown flag {name}, did you mean --until steps=50000?"
    settings = {one.removeprefix("--").replace("-", "_"): one for one in known}
    settings |= {"lambda_": "--lambda"} if "lambda" in settings else {}
    near = our_name(name.removeprefix("--").replace("-", "_"), settings)
    return f"unknown flag {name}" + (f", did you mean {settings[near]}?" if near else "")


def means_steps(name: str) -> bool:
    """Whether somebody means how many steps to train for, which `until` says here."""
    return _plain(name) in _STEPS


def _plain(name: str) -> str:
    return name.strip("-").replace("-", "_").lower()
