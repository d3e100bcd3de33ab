"""Measure one and more processes that train together, beside the raw speed of the environments; model many of them.

python -m benchmarks.scaling                      # about ten minutes; writes results/scaling.{json,md,png}
python -m benchmarks.scaling --steps 512 --works CartPole-v1 --results DIR

Each work is written when it is measured; one that fails is named there, and the others go on.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.machine import describe_machine
from benchmarks.network import ADDRESSES, Hosts
from benchmarks.run import RESULTS, as_markdown, show
from benchmarks.works import ZOO_ATARI, ZOO_CARTPOLE
from proximo.cores import THREADS_VARIABLES

NEEDED = {"HalfCheetah-v5": 1.6}  # times one process
TURNS = 3  # of works whose ratio is needed, in alternation; the speed of a machine varies
ONE_THREAD = "1, one thread"
SETUPS = {"1": 1, "2": 2, ONE_THREAD: 1}  # processes; as they start, but for the last, which the model is made from
MODELLED = (2, 4, 8, 16, 32, 64, 128, 256)
NETWORKS = {"1 Gbit/s": 1e9 / 8, "10 Gbit/s": 1e10 / 8, "100 Gbit/s": 1e11 / 8}  # bytes per second
LATENCY = 50e-6  # seconds per message between two machines
CHECKED = "HalfCheetah-v5"  # against a cable of limited bandwidth
CHECKED_MEGABITS = (10, 100, 1000)
CHECK_HEADER = ["cable", "modelled", "measured", "measured / modelled"]
FAILURES = (OSError, RuntimeError, subprocess.SubprocessError)  # of a measurement


@dataclass(frozen=True)
class Work:
    env_id: str
    n_envs: int
    steps: int
    policy: str = "MlpPolicy"
    arguments: dict[str, Any] = field(default_factory=dict)


WORKS = {
    work.env_id: work
    for work in (
        Work("HalfCheetah-v5", 16, 131_072, arguments={"n_steps": 512, "batch_size": 256}),
        Work("HalfCheetahBulletEnv-v0", 16, 65_536, arguments={"n_steps": 512, "batch_size": 256}),
        Work("PongNoFrameskip-v4", 8, 8_192, "CnnPolicy", ZOO_ATARI),
        Work("CartPole-v1", 16, 262_144, arguments={**ZOO_CARTPOLE, "n_steps": 128}),
    )
}


def make_envs(work: Work, count: int) -> Any:
    from proximo.envs import VecFrameStack, make_atari_env, make_vec_env

    if work.policy == "CnnPolicy":
        return VecFrameStack(make_atari_env(work.env_id, count, seed=0), 4)
    return make_vec_env(work.env_id, count, seed=0)


def step_raw(work: Work, count: int, steps: int) -> float:
    """Steps per second of ``count`` environments with random actions, and nothing else."""
    env = make_envs(work, count)
    env.reset()
    actions = [[env.action_space.sample() for _ in range(count)] for _ in range(64)]
    vector_steps = max(64, steps // count // 4)
    start = time.perf_counter()
    for index in range(vector_steps):
        env.step_arrays(actions[index % 64])
    elapsed = time.perf_counter() - start
    env.close()
    return vector_steps * count / elapsed


def be_worker(work: Work, steps: int, out: Path) -> None:
    """One process of a launch: raw speed first, then a training; rank 0 writes what all did."""
    from proximo import PPO
    from proximo.distributed import join

    if (group := join()) is not None:
        group.gather(None, "the start of the benchmark")  # raw speeds are those of all processes at the same time
    count = work.n_envs // int(os.environ.get("WORLD_SIZE", 1))
    raw = step_raw(work, count, steps)
    model = PPO(work.policy, make_envs(work, count), seed=0, device="cpu", **work.arguments)
    model.learn(model.n_steps * work.n_envs)  # compiles kernels where nothing is cached
    before = (0, 0) if group is None else (group.messages, group.bytes)
    seconds = {"collecting": 0.0, "updating": 0.0}
    _time_calls(model, "collect_rollouts", seconds, "collecting")
    _time_calls(model, "train", seconds, "updating")
    start = time.perf_counter()
    model.learn(steps)
    elapsed = time.perf_counter() - start
    raws = [raw] if group is None else group.gather(raw, "the end of the benchmark")
    if model.rank != 0:
        return
    iterations = model.num_timesteps // (model.n_steps * work.n_envs)
    after = before if group is None else (group.messages, group.bytes)
    found = {
        "steps_per_second": model.num_timesteps / elapsed,
        "raw_steps_per_second": sum(raws),
        "iterations": iterations,
        "steps_per_iteration": model.n_steps * work.n_envs,
        "messages_per_iteration": (after[0] - before[0]) / iterations,
        "bytes_per_iteration": (after[1] - before[1]) / iterations,
        "backend": model.backend,
        **{f"{name}_per_iteration": value / iterations for name, value in seconds.items()},
    }
    out.write_text(json.dumps(found))


def _time_calls(model: Any, name: str, seconds: dict[str, float], key: str) -> None:
    method = getattr(model, name)

    def timed(*arguments: Any) -> Any:
        start = time.perf_counter()
        try:
            return method(*arguments)
        finally:
            seconds[key] += time.perf_counter() - start

    setattr(model, name, timed)


def measure(work: Work, setup: str, steps: int) -> dict[str, Any]:
    processes = SETUPS[setup]
    variables = {name: value for name, value in os.environ.items() if name not in THREADS_VARIABLES}
    if setup == ONE_THREAD:
        variables["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        own = ["-m", "benchmarks.scaling", "--worker", work.env_id, "--steps", str(steps), "--out", str(out)]
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        command = [sys.executable, *(launcher if processes > 1 else []), *own]
        subprocess.run(command, check=True, env=variables)
        return json.loads(out.read_text())


def measure_in_turns(work: Work, steps: int, console: Console) -> dict[str, Any]:
    """One and two processes in alternation; of each the turn of median speed."""
    turns: list[dict[str, Any]] = []
    for turn in range(TURNS if work.env_id in NEEDED else 1):
        turns.append({})
        for setup in SETUPS:
            turns[-1][setup] = found = measure(work, setup, steps)
            said = f"{work.env_id}, turn {turn + 1}, processes {setup}: {found['steps_per_second']:,.0f} steps/s"
            console.print(said, markup=False, highlight=False)
    ratios = [turn["2"]["steps_per_second"] / turn["1"]["steps_per_second"] for turn in turns]
    middle = {
        name: sorted((turn[name] for turn in turns), key=lambda found: found["steps_per_second"])[len(turns) // 2]
        for name in turns[0]
    }
    return {**middle, "ratio": sorted(ratios)[len(ratios) // 2], "ratios": ratios}


def modelled(found: dict[str, Any], processes: int, bandwidth: float) -> float:
    """Steps per second of ``processes`` machines with a core each, for rollouts of the size that was measured.

    Stepping is shared out; so is the update where it is sharded, and not where every process makes all of it. An
    exchange passes each process's bytes on from neighbour to neighbour: P − 1 times latency and bytes / P.
    """
    one, two = found[ONE_THREAD], found["2"]
    sharded = two["backend"] != "fused"
    collecting = one["collecting_per_iteration"] / processes
    updating = one["updating_per_iteration"] / (processes if sharded else 1)
    per_message = 2 * two["bytes_per_iteration"] / two["messages_per_iteration"]  # of all processes together
    exchange = (processes - 1) * (LATENCY + per_message / processes / bandwidth)
    return one["steps_per_iteration"] / (collecting + updating + two["messages_per_iteration"] * exchange)


def model_table(results: dict[str, Any]) -> list[list[str]]:
    rows = [["work", "network", *(str(count) for count in MODELLED)]]
    for name, found in results.items():
        for network, bandwidth in NETWORKS.items():
            speeds = [modelled(found, count, bandwidth) for count in MODELLED]
            rows.append([name, network, *(f"{speed:,.0f}" for speed in speeds)])
    return rows


def check_model(found: dict[str, Any], work: Work, steps: int) -> tuple[list[list[str]], str | None]:
    """Two processes in two network namespaces whose cable is slow: modelled and measured; and why not, if not."""
    hosts = Hosts()
    rows = [CHECK_HEADER]
    try:
        obstacle = hosts.make()
        for megabits in CHECKED_MEGABITS if obstacle is None else ():
            if (obstacle := hosts.limit(megabits)) is not None:
                return rows, f"tc tbf: {obstacle}"
            speed = measure_on_hosts(hosts, work, steps)["steps_per_second"]
            expected = modelled(found, 2, megabits * 1e6 / 8)
            rows.append([f"{megabits} Mbit/s", f"{expected:,.0f}", f"{speed:,.0f}", f"{speed / expected:.2f}"])
        return rows, obstacle
    except FAILURES as error:
        return rows, f"{type(error).__name__}: {error}"
    finally:
        hosts.remove()


def measure_on_hosts(hosts: Hosts, work: Work, steps: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        own = ["-m", "benchmarks.scaling", "--worker", work.env_id, "--steps", str(steps), "--out", str(out)]
        place = {"WORLD_SIZE": "2", "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": "29501"}
        sides = [hosts.start(rank, *own, RANK=str(rank), **place) for rank in range(2)]
        try:
            texts = [side.communicate(timeout=300)[0] for side in sides]
        finally:
            for side in sides:
                side.kill()
        if any(side.returncode for side in sides):
            raise RuntimeError("\n".join(texts))
        return json.loads(out.read_text())


def draw(results: dict[str, Any], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(results), figsize=(4 * len(results), 3.2), squeeze=False)
    for axis, (name, found) in zip(axes[0], results.items(), strict=True):
        for network, bandwidth in NETWORKS.items():
            speeds = [modelled(found, count, bandwidth) for count in MODELLED]
            axis.plot(MODELLED, speeds, label=network)
        axis.plot((1, 2), [found[name]["steps_per_second"] for name in (ONE_THREAD, "2")], "ko", label="measured")
        axis.set(title=name, xlabel="processes", xscale="log", yscale="log")
    axes[0][0].set_ylabel("steps per second")
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--works", nargs="+", choices=list(WORKS), default=list(WORKS))
    parser.add_argument("--results", type=Path, default=RESULTS)
    words = parser.parse_args()
    if words.worker:
        be_worker(WORKS[words.worker], words.steps, words.out)
        return
    console, results, failures = Console(), {}, {}
    checks, obstacle = [CHECK_HEADER], f"{CHECKED} was not measured"
    for name in words.works:
        steps = words.steps or WORKS[name].steps
        try:
            results[name] = measure_in_turns(WORKS[name], steps, console)
        except FAILURES as error:
            failures[name] = str(error)
            console.print(f"{name} failed: {error}", markup=False)
            continue
        if name == CHECKED:
            checks, obstacle = check_model(results[name], WORKS[name], steps // 2)
        write(words.results, results, failures, checks, obstacle)
    show(console, "steps per second of one and two processes that train together", speed_rows(results))
    show(console, "steps per second, modelled, by the number of processes", model_table(results))
    show(console, f"the model against a slow cable between two network namespaces, {CHECKED}", checks)
    if obstacle is not None:
        console.print(f"not checked: {obstacle}", markup=False)
    if failures:
        write(words.results, results, failures, checks, obstacle)
        parser.exit(1, f"error: {', '.join(failures)} failed\n")


def speed_rows(results: dict[str, Any]) -> list[list[str]]:
    rows = [["work", "raw", "one thread", "one process", "two", "times", "needed", "messages", "kB per iteration"]]
    for name, found in results.items():
        one, two = found["1"], found["2"]
        rows.append(
            [
                f"{name}, {WORKS[name].n_envs} envs, {two['backend'].partition(':')[0]}",
                f"{two['raw_steps_per_second']:,.0f}",
                f"{found[ONE_THREAD]['steps_per_second']:,.0f}",
                f"{one['steps_per_second']:,.0f}",
                f"{two['steps_per_second']:,.0f}",
                f"{found['ratio']:.2f}",
                f"≥ {NEEDED[name]}" if name in NEEDED else "",
                f"{two['messages_per_iteration']:.0f}",
                f"{two['bytes_per_iteration'] / 1000:,.0f}",
            ]
        )
    return rows


def write(
    folder: Path, results: dict[str, Any], failures: dict[str, str], checks: list[list[str]], obstacle: str | None
) -> None:
    machine = describe_machine()
    folder.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine, "works": results, "failed": failures, "checks": checks[1:], "not_checked": obstacle}
    (folder / "scaling.json").write_text(json.dumps(content, indent=2) + "\n")
    if results:
        draw(results, folder / "scaling.png")
    described = ", ".join(f"{name} {value}" for name, value in machine.items())
    failed = "".join(f"\n{name} failed: {reason}\n" for name, reason in failures.items())
    checked = as_markdown(checks) if len(checks) > 1 else ""
    checked += "" if obstacle is None else f"\n\nNot checked here: {obstacle}."
    (folder / "scaling.md").write_text(f"""# Processes that train together

Steps per second; `raw` is the environments alone, with random actions, in two processes at the same time. One process
and two are started without a word about threads: one uses the second core where it helps. `one thread` is one process
that may not. `times` is two processes against one, the median of {TURNS} turns where a number is needed. Messages and
bytes are those of one of the two processes in an iteration.
"needed" is what this project asks of itself.

{as_markdown(speed_rows(results))}
{failed}
## A model of more processes

Steps per second of so many machines with a core each, from what was measured above with one thread: stepping is shared
out, the update too where it is sharded, and each message travels from neighbour to neighbour with
{1e6 * LATENCY:.0f} µs and the network's bandwidth. A rollout has as many rows as measured, however many processes
collect it: from more environments, fewer steps of each.

{as_markdown(model_table(results))}

![modelled](scaling.png)

Against two network namespaces whose cable is slowed down (`tc tbf`), {CHECKED}, steps per second:

{checked.strip()}

Measured with `python -m benchmarks.scaling` on: {described}.
""")


if __name__ == "__main__":
    main()
