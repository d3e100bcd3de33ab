"""Random search over the weights: read them, change them, put them back."""

import numpy as np
import torch as th

from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy


def mutate(params: dict[str, th.Tensor]) -> dict[str, th.Tensor]:
    return {name: param + 0.3 * th.randn_like(param) for name, param in params.items()}


model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, seed=0, policy_kwargs={"net_arch": []})
model.learn(64)
mean_params = {
    key: value.clone()
    for key, value in model.policy.state_dict().items()
    if "policy" in key or "shared_net" in key or "action" in key
}
assert sorted(mean_params) == ["action_net.bias", "action_net.weight"]
best = -np.inf
for _ in range(3):
    candidate = mutate(mean_params)
    model.policy.load_state_dict(candidate, strict=False)
    assert th.equal(model.policy.action_net.weight, candidate["action_net.weight"])
    fitness, _ = evaluate_policy(model, model.get_env(), n_eval_episodes=2)
    best = max(best, fitness)
assert best > 0

everything = model.get_parameters()
assert sorted(everything) == ["policy", "policy.optimizer"]
saved = {key: value.clone() for key, value in everything["policy"].items()}
everything["policy"] = {key: value + 1.0 for key, value in everything["policy"].items()}
model.set_parameters(everything, exact_match=True)
assert th.allclose(model.policy.value_net.bias, saved["value_net.bias"] + 1.0)
model.learn(64, reset_num_timesteps=False)
