"""A newcomer's first guess, by the names of folders and files alone, is where a thing is.

Whoever moves a thing changes its line here. If the new place is harder to guess, its name is wrong.
"""

from __future__ import annotations

from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "rillflow"

HOUSE = {
    # the core
    "how neighbours are checked before a start": ("graph/neighbours.py", "def disagreement"),
    "what is wrong with a flow": ("graph/check.py", "def problems"),
    "types that go through queues": ("graph/types_behind_queues.py", "class _Inference"),
    "actors that a function of the user's holds": ("graph/captured_actors.py", "captured_groups"),
    "what `explain()` prints": ("pictures/text.py", "def to_text"),
    "a flow as Mermaid": ("pictures/mermaid.py", "def to_mermaid"),
    "round-robin weights of `Concurrently`": ("scheduler/union.py", "self.weights"),
    "the ledger's equation": ("scheduler/ledger.py", "self.produced == self.in_flight + self.held"),
    "the bottleneck verdict": ("scheduler/bottleneck.py", "def bottleneck"),
    "what a failure of an actor leads to": ("scheduler/supervision.py", "WorkerLost"),
    "what an engine must do": ("engines/contract.py", "class Engine"),
    "where a dead worker is noticed": ("engines/local_dead_worker.py", "def lost_event"),
    "the life of shared memory": ("engines/local_memory.py", "class ShmRef"),
    "how Ray objects are held and freed": ("engines/ray.py", "class RayRef"),
    "virtual time": ("engines/sim_time.py", "class Timeline"),
    "the cores of a virtual cluster": ("engines/sim_cores.py", "class Cores"),
    # predictions
    "`simulate`": ("simulation/predict.py", "def simulate"),
    "what a real run teaches a simulation": ("simulation/calibrate.py", "def calibrate"),
    "recording a real engine": ("simulation/recording_engine.py", "class Recorder"),
    "the engine of a simulation": ("simulation/virtual_engine.py", "class VirtualEngine"),
    "operators replayed instead of run": (
        "simulation/recorded_operators.py",
        "class ReplayedOperator",
    ),
    # environments and experience
    "what is an image, and where its channels are": ("images.py", "def image_in"),
    "several learners of one policy": ("learning/torch_together.py", "class FirstLearner"),
    "updates as CUDA graphs": ("learning/torch_graphs.py", "class UpdateGraphs"),
    "updates repeated without autograd": ("learning/torch_repeats.py", "class RepeatedUpdates"),
    "a device that fails while learning": ("learning/device_errors.py", "class LearningErrors"),
    "stacked frames that travel once": ("experience/stacked_frames.py", "class Stacks"),
    "frames in replay": ("experience/frame_ring.py", "class FrameRing"),
    "frame stacking": ("envs/frame_stack.py", "class FrameStack"),
    "frame stacking of Atari games": ("envs/atari_options.py", "stack_num"),
    "what may be chosen of an Atari game": ("envs/atari_options.py", "OPTIONS"),
    "episodes that end with a life": ("envs/lives.py", "class Lives"),
    "resizing of images": ("envs/resizing.py", "class Resized"),
    "what is done to observations": ("envs/preprocessing.py", "class Preprocessing"),
    "which convolutions see an image": ("policies/convolution_plan.py", "def plan_for"),
    "saving an Atari game": ("envs/atari_state.py", "class SavedAtari"),
    "single environments as a vector": ("envs/sync_vector.py", "class SyncVector"),
    "what becomes of an environment that raises": ("envs/reset_after_error.py", "class Mending"),
    "PettingZoo": ("envs/multiagent_pettingzoo.py", "PettingZoo"),
    "which policy acts for which agent": ("envs/multiagent_mapping.py", "def group_agents"),
    "the parts of an observation in its array": ("envs/layout.py", "class Layout"),
    "masks of actions in infos": ("envs/info_masks.py", "class InfoMasks"),
    "what a mask does to outputs": ("policies/action_masks.py", "RULED_OUT"),
    "Dict and Tuple actions": ("envs/composed_actions.py", "def composed"),
    "turn-based games": ("envs/multiagent_turns.py", "class TurnsInParallel"),
    "small environments with known answers": ("envs/toy.py", "class Bandit"),
    "reading Minari's datasets": ("datasets/reading.py", "class Dataset"),
    "writing Minari's datasets": ("datasets/writing.py", "class DatasetWriter"),
    "what is refused of a dataset": ("datasets/checking.py", "def check"),
    "rows of a dataset in random order": ("datasets/shuffled.py", "class ShuffledRows"),
    "settings of learning from data": ("learning/offline_config.py", "class OfflineConfig"),
    "recording a policy's episodes": ("results/record_episodes.py", "def record_data"),
    "targets that follow by Polyak's average": ("policies/target_networks.py", "class Polyak"),
    "the sum tree": ("experience/sum_tree.py", "class SumTree"),
    "prioritized replay": ("experience/prioritized.py", "class PrioritizedReplayBuffer"),
    "n-step transitions": ("experience/n_step.py", "def n_step_transitions"),
    "steps whose windows reach into the next fragment": (
        "experience/waiting_steps.py",
        "class WaitingSteps",
    ),
    "what settings suit an environment, or a memory": (
        "learning/suited_settings.py",
        "def suiting",
    ),
    "acting on a GPU": ("policies/device_policy.py", "class DevicePolicy"),
    "which worker acts on which GPU": ("learning/acting_device.py", "def device_of"),
    "CUDA graphs of acting": ("policies/cuda_graph.py", "CUDAGraph"),
    "sequences in replay": ("experience/sequences.py", "def sequences_of"),
    "what comes before a sequence in replay": ("rl/burn_in.py", "class BurnIn"),
    # learning
    "GAE": ("learning/losses/returns.py", "def gae"),
    "V-trace": ("learning/losses/returns.py", "def vtrace"),
    "DQN's learning rate on CartPole": ("algorithms/dqn.py", '"lr": 2.3e-3'),
    "the lstm and the gru": ("policies/recurrent.py", "class Recurrent"),
    "acting with a memory": ("policies/remembering.py", "class Remembering"),
    "priorities of sequences": ("learning/q_sequences.py", "def priorities"),
    "exploration schedules": ("policies/exploration_schedules.py", "def falling"),
    "settings that follow a run": ("learning/schedules.py", "def Linear"),
    "normalised observations": ("policies/normalizer.py", "class Normalizer"),
    "who counts observations": ("learning/observation_statistics.py", "def count"),
    "scaled rewards": ("learning/reward_scale.py", "class RewardScale"),
    "an algorithm's networks and their roles": ("policies/modules.py", "class Modules"),
    "gradients in NumPy": ("learning/tape.py", "class Tape"),
    "tasks inside workers": ("rl/tasks.py", "def ParallelTasks"),
    "where a new algorithm is registered": ("algorithms/__init__.py", "NAMES"),
    "how weights are versioned and sent": ("rl/weights.py", "self.version"),
    "the mean return of the last 100 episodes": ("rl/metrics.py", "WINDOW = 100"),
    "PPO's clipped objective": ("learning/losses/policy.py", "def clipped_surrogate_loss"),
    "gradients that are clipped": ("learning/numpy_adam.py", "def clip_norm"),
    "weights of what prioritized replay samples": ("experience/prioritized.py", "weights ="),
    "which GPU is used": ("learning/devices.py", "cuda"),
    "seeds of workers": ("seeding.py", "def derive_seed"),
    "the squashed Gaussian of SAC": ("policies/sampling.py", "def squashed_logp"),
    # runs and what comes of them
    "a checkpoint's hash check": ("checkpoint/hashed_files.py", "found != self._record.sha256"),
    "classes that a checkpoint may hold": ("checkpoint/registered_classes.py", "def register"),
    "replacing a small file as a whole": ("files.py", "def replaced"),
    "strict JSON": ("files.py", "allow_nan=False"),
    "checking that an argument is a count": ("arguments.py", "def check_count"),
    "Ctrl-C": ("runs/interrupts.py", "SIGINT"),
    "metrics.jsonl": ("runs/metrics_file.py", "metrics.jsonl"),
    "status.json": ("runs/status.py", "def snapshot"),
    "the policy of a run that goes on": ("runs/newest_policy.py", "def newest_step"),
    "when an evaluation is due": ("runs/evaluate_while_training.py", "self.due"),
    "who plays an evaluation": ("runs/evaluator.py", "class Evaluator"),
    "the process that plays while training goes on": (
        "runs/process_beside_training.py",
        "class Beside",
    ),
    "the best policy of a run": ("runs/best_policy.py", "class BestPolicy"),
    "the user's callbacks": ("runs/callbacks.py", '"on_result"'),
    "films of a run that goes on": ("runs/film_while_training.py", "class Films"),
    "`--init-from`": ("runs/warm_start.py", "def begin_with"),
    "how many rows a second are told": ("runs/few_rows.py", "class FewRows"),
    "output in ASCII": ("runs/progress/plain_terminal.py", "def plain"),
    "whose code a run names": ("safety/own_code.py", "def sealed"),
    "`rf.run`, a flow of one's own": ("runs/own_flow.py", "def run"),
    "`rf.resume`": ("runs/resume.py", "def resume"),
    "`rf.load`": ("runs/load_policy.py", "def load"),
    "the time that is left": ("runs/progress/time_left.py", "class Forecast"),
    "a run in a notebook": ("runs/progress/notebook.py", "class NotebookDisplay"),
    "the live display of a terminal": ("runs/progress/display.py", "class Display"),
    "what a callback is given": ("runs/training_run.py", "class TrainingRun"),
    "when a run ends": ("runs/limits.py", "def reached"),
    "figures from infos": ("envs/final_info.py", "class FinalInfos"),
    "what settings are called elsewhere": ("learning/did_you_mean.py", '"learning_rate"'),
    "the loop that plays episodes": ("results/play_episodes.py", "def play"),
    "evaluation with intervals": ("results/evaluation.py", "class Evaluation"),
    "settings as they are saved": ("results/config_as_json.py", "def settings_of"),
    "a strip of frames": ("results/film_strip.py", "def frame_strip"),
    "the ONNX graph of a built-in network": ("results/onnx_builtin_networks.py", "def build"),
    # several runs
    "what runs are called beside each other": ("run_labels.py", "def places"),
    "runs in processes of their own": ("cli/side_by_side.py", "class SideBySide"),
    "`--seeds`": ("cli/several_seeds.py", "def train_seeds"),
    "what a search tries next": ("cli/search.py", "def members"),
    "the table of runs in the browser": ("web/runs_table.py", "class RunsTable"),
    "which page is at which path": ("web/site.py", "class Site"),
    "processors and memory over time": ("runs/machine_use.py", "class MachineUse"),
    "whether a group of runs is better": ("results/comparison.py", "def compare"),
    "a run in one file": ("results/pack.py", "def pack_run"),
    "a packed run from a stranger": ("results/unpack.py", "def unpack_run"),
    "the card of a packed run": ("results/model_card.py", "def card_as_text"),
    "requests answered together": ("serving/batching.py", "class Batcher"),
    "observations from JSON": ("serving/observations.py", "class Encoder"),
    "tokens and hosts of our servers": ("listening.py", "class Door"),
    # commands and the page
    "which command is meant": ("cli/find_command.py", "def run"),
    "whether a request to a served policy has the token": ("serving/server.py", "def _check_who"),
    "the list of commands": ("cli/commands/__init__.py", '"simulate": "predict'),
    "errors as one line": ("cli/output/error_messages.py", "def explain_error"),
    "`--until`": ("cli/flags/until.py", "def parse_until"),
    "`--trust`": ("cli/flags/trust.py", '"--trust"'),
    "advice on what to change": ("cli/output/advice.py", "def advise"),
    "the page's JavaScript": ("web/page/view.js", "function rateOf"),
}
"""what is looked for: the file that has it, and a word that stands there"""

SAYS_NOTHING = {
    "understudy", "rehearsal", "stage", "inside", "points", "poles", "captured", "singles",
    "groups", "games", "strip", "traced", "parity", "playing", "extras", "here", "space", "newest",
    "utils", "util", "misc", "helpers", "common", "stuff",
}  # fmt: skip
"""names that were here once, or are everywhere, and told nobody what is in the file"""


@pytest.mark.parametrize("thing", HOUSE)
def test_a_thing_is_where_its_name_says(thing: str) -> None:
    path, word = HOUSE[thing]
    assert (SRC / path).is_file(), f"{thing}: {path} is gone; say where it is now"
    assert word in (SRC / path).read_text(encoding="utf-8"), f"{thing} is no longer in {path}"


def test_names_say_something() -> None:
    silent = {
        str(path.relative_to(SRC))
        for path in SRC.rglob("*.py")
        if path.stem.strip("_") in SAYS_NOTHING
    }
    assert not silent


def test_every_module_says_what_is_in_it() -> None:
    """The first line of each file is a sentence of its own."""
    for path in SRC.rglob("*.py"):
        assert path.read_text(encoding="utf-8").startswith('"""'), path


def test_the_table_of_contributing_names_every_part() -> None:
    table = (SRC.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    parts = {p.name + "/" if p.is_dir() else p.name for p in SRC.iterdir() if p.name[0] not in "_."}
    missing = {part for part in parts - {"py.typed"} if f"`{part}`" not in table}
    assert not missing
