import torch as th
from rllte.common.prototype import OnPolicyAgent
from rllte.env import make_rllte_env
from rllte.xploit.encoder import IdentityEncoder
from rllte.xploit.policy import OnPolicySharedActorCritic
from rllte.xploit.storage import VanillaRolloutStorage
from rllte.xplore.distribution import Categorical


class OwnA2C(OnPolicyAgent):
    def __init__(self, env, eval_env, tag, seed, device, num_steps):
        super().__init__(env=env, eval_env=eval_env, tag=tag, seed=seed, device=device, num_steps=num_steps)
        features = env.observation_space.shape[0]
        self.set(
            encoder=IdentityEncoder(observation_space=env.observation_space, feature_dim=features),
            policy=OnPolicySharedActorCritic(
                observation_space=env.observation_space,
                action_space=env.action_space,
                feature_dim=features,
                hidden_dim=64,
                opt_class=th.optim.Adam,
                opt_kwargs={"lr": 2e-3, "eps": 1e-5},
                init_fn="orthogonal",
            ),
            storage=VanillaRolloutStorage(
                observation_space=env.observation_space,
                action_space=env.action_space,
                device=device,
                storage_size=self.num_steps,
                num_envs=self.num_envs,
                batch_size=64,
                discount=0.99,
            ),
            distribution=Categorical(),
        )

    def update(self):
        for batch in self.storage.sample():
            values, log_probs, entropy = self.policy.evaluate_actions(obs=batch.observations, actions=batch.actions)
            policy_loss = -(batch.adv_targ * log_probs).mean()
            value_loss = 0.5 * (values.flatten() - batch.returns).pow(2).mean()
            self.policy.optimizers["opt"].zero_grad(set_to_none=True)
            (0.5 * value_loss + policy_loss - 0.01 * entropy).backward()
            th.nn.utils.clip_grad_norm_(self.policy.parameters(), 0.5)
            self.policy.optimizers["opt"].step()
        return {"train/policy_loss": policy_loss.item(), "train/value_loss": value_loss.item()}


env = make_rllte_env("CartPole-v1", num_envs=8, seed=1, device="cpu", asynchronous=False)
eval_env = make_rllte_env("CartPole-v1", num_envs=4, seed=9, device="cpu", asynchronous=False)
agent = OwnA2C(env, eval_env, tag="own_a2c", seed=1, device="cpu", num_steps=32)
untrained = agent.eval(8)["episode_reward"]
agent.train(num_train_steps=24_000, eval_interval=1000)
trained = agent.eval(8)["episode_reward"]
