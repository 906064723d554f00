"""An environment of your own: any Gymnasium class will do. Here, a room and its heater."""

import gymnasium as gym
import numpy as np

import rillflow as rf


class Room(gym.Env):
    """Keep a room at 20 degrees; the heater is on or off, and the weather is what it is."""

    observation_space = gym.spaces.Box(-40.0, 60.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, power: float = 1.5) -> None:
        self.power = power

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple:
        super().reset(seed=seed)
        self.inside, self.outside = self.np_random.uniform((10, -5), (25, 10))
        self.steps = 0
        return self._seen(), {}

    def step(self, action: int) -> tuple:
        self.inside += self.power * action + 0.06 * (self.outside - self.inside)
        self.steps += 1
        reward = -abs(self.inside - 20.0)
        return self._seen(), float(reward), False, self.steps == 100, {}

    def _seen(self) -> np.ndarray:
        return np.array([self.inside - 20.0, self.outside], np.float32)


if __name__ == "__main__":
    settings = {"num_envs_per_worker": 8, "rollout_fragment_length": 100, "train_batch_size": 1600}
    trained = rf.train("ppo", Room, until={"steps": 40_000}, env_config={"power": 2.0}, **settings)
    early = next(row["return"] for row in trained.history if row["episodes"] >= 100)
    print(f"return per episode: {early:.0f} at first, {np.mean(trained.evaluate(20)):.0f} now")
