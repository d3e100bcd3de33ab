"""Train one of rllte's own agent files as an agent of the user's: a copy in which only the imports are changed.

python rllte_agent.py legacy/ppo.py PPO cpu 20000 '{"n_epochs": 4}'
"""

import importlib.util
import json
import re
import sys
from pathlib import Path

file, name, device, steps, options = sys.argv[1:]
if device == "sim":  # a device that computes on the CPU, and that memory is copied to as to any accelerator
    sys.path.insert(0, str(Path(__file__).parents[2] / "devices"))
    import sim_device

    sim_device.register()

from proximo.rllte.common.prototype import OnPolicyAgent  # noqa: E402
from proximo.rllte.env import make_rllte_env  # noqa: E402

(installed,) = importlib.util.find_spec("rllte").submodule_search_locations  # found, not imported
source = (Path(installed) / "agent" / file).read_text(encoding="utf-8")
copy = Path(f"own_{name.lower()}.py")
copy.write_text(re.sub(r"^from rllte\b", "from proximo.rllte", source, flags=re.MULTILINE), encoding="utf-8")
sys.path.insert(0, ".")
kind = getattr(__import__(copy.stem), name)
assert issubclass(kind, OnPolicyAgent)
assert kind.__module__ == copy.stem

env, eval_env = (make_rllte_env("CartPole-v1", 8, seed, device, asynchronous=False) for seed in (1, 99))
agent = kind(env, eval_env, device=device, **json.loads(options))
untrained = agent.eval(20)["episode_reward"]
agent.train(float(steps), eval_interval=10_000)
print(json.dumps({"untrained": untrained, "trained": agent.eval(20)["episode_reward"], "metrics": agent.metrics}))
