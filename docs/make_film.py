"""Film the README's agent: PPO on CartPole-v1, and what it does when the cart is pushed.

python docs/make_film.py        needs Pillow and pygame: pip install -e '.[video]'
"""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
from PIL import Image

import rillflow as rf

OUT = Path(__file__).parent / "pictures" / "cartpole.gif"
STEPS, EVERY = 240, 3
PUSHES = {60: -0.9, 120: 0.9, 180: -0.9}
"""at which steps the pole is pushed, and by how many radians a second"""


def main() -> None:
    """Train, play, draw."""
    run = rf.train("ppo", "CartPole-v1", until={"return": 475}, num_workers=2, seed=0, engine="sim")
    env = gym.make("CartPole-v1", render_mode="rgb_array")
    obs, _ = env.reset(seed=7)
    frames: list[Image.Image] = []
    for step in range(STEPS):
        if step % EVERY == 0:
            picture = Image.fromarray(np.asarray(env.render()))
            small = picture.crop((0, 120, 600, 340)).resize((450, 165), Image.Resampling.LANCZOS)
            frames.append(small.convert("P", palette=Image.Palette.ADAPTIVE, colors=24))
        cart: gym.Env = env.unwrapped
        cart.state = np.add(cart.state, [0.0, 0.0, 0.0, PUSHES.get(step, 0.0)])
        obs, _, fell, _, _ = env.step(int(run.act(obs)))
        assert not fell, f"the pole fell after {step} steps: it needs another seed"
    env.close()
    frames[0].save(OUT, save_all=True, append_images=frames[1:], duration=60, loop=0, optimize=True)
    print(f"{OUT.name}: {len(frames)} frames, {OUT.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
