"""The same seed gives the same parameters, to the last bit: twice, and in worker processes as in this one."""

from __future__ import annotations

import hashlib
from functools import partial

import pytest

from proximo import A2C, DAAC, PPG, PPO, TRPO, MaskablePPO, RecurrentPPO, make_vec_env
from proximo.envs import DummyVecEnv, SubprocVecEnv
from proximo.envs.testing.environments import InvalidActionEnvDiscrete

SMALL = {"n_steps": 16, "seed": 5}
BATCHES = {"batch_size": 24, "n_epochs": 2}
ALGORITHMS = {
    "PPO": (PPO, "MlpPolicy", SMALL | BATCHES),
    "PPO torch": (PPO, "MlpPolicy", SMALL | BATCHES | {"backend": "torch"}),
    "A2C": (A2C, "MlpPolicy", SMALL),
    "TRPO": (TRPO, "MlpPolicy", SMALL | {"batch_size": 24}),
    "DAAC": (DAAC, "MlpPolicy", SMALL | {"batch_size": 24, "value_epochs": 2}),
    "RecurrentPPO": (RecurrentPPO, "MlpLstmPolicy", SMALL | BATCHES | {"policy_kwargs": {"lstm_hidden_size": 8}}),
    "MaskablePPO": (MaskablePPO, "MlpPolicy", SMALL | BATCHES),
    "PPG": (PPG, "MlpPolicy", SMALL | {"batch_size": 24, "rollouts_per_phase": 2, "aux_epochs": 2}),
}
WORKERS = {"start_method": "fork", "envs_per_worker": 2}


def parameter_hash(name: str, vec_env_cls: type) -> str:
    algorithm, policy, settings = ALGORITHMS[name]
    environment = "CartPole-v1"
    if algorithm is MaskablePPO:
        environment = partial(InvalidActionEnvDiscrete, 4, ep_length=7, n_invalid_actions=2)
    vec_env_kwargs = WORKERS if vec_env_cls is SubprocVecEnv else None
    env = make_vec_env(environment, 3, seed=5, vec_env_cls=vec_env_cls, vec_env_kwargs=vec_env_kwargs)
    model = algorithm(policy, env, **settings)
    model.learn(144)
    env.close()
    digest = hashlib.sha256()
    for key, value in sorted(model.policy.state_dict().items()):
        digest.update(key.encode())
        digest.update(value.cpu().numpy().tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_same_seed_same_parameters(name, tally):
    with tally.case("determinism: twice, and in workers"):
        first = parameter_hash(name, DummyVecEnv)
        assert parameter_hash(name, DummyVecEnv) == first
        assert parameter_hash(name, SubprocVecEnv) == first
