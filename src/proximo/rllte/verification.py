"""``python -m proximo.rllte.verification``: a short training that tells whether everything works."""

import sys
import tempfile
from contextlib import chdir

from proximo.rllte.agent import PPO
from proximo.rllte.env import make_rllte_env

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        agent = PPO(make_rllte_env("Acrobot-v1", num_envs=1), tag="verification")
        agent.train(num_train_steps=1000)
    sys.stdout.write(f"verification passed: {agent.global_step} steps\n")
