from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from counting_envs import CountingEnv, DictCountingEnv, RandomEnv, TroubleEnv

from proximo.envs import DummyVecEnv, Monitor, SubprocVecEnv, VecNormalize, make_vec_env
from proximo.envs.workers.shared_memory import SharedArrays
from proximo.envs.workers.subproc import WorkerDiedError
from proximo.errors import EnvWorkerError

START = "fork"  # the quickest to start; the other methods have a test of their own


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """After each test: no worker processes, no shared memory with a name."""
    yield
    gc.collect()
    deadline = time.monotonic() + 10
    while multiprocessing.active_children() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert multiprocessing.active_children() == []
    assert not list(Path("/dev/shm").glob(f"proximo-{os.getpid()}-*"))


def make(*factories, **kwargs):
    return SubprocVecEnv(list(factories), **{"start_method": START, **kwargs})


def assert_equal_infos(first, second):
    def without_times(info):
        return {key: value for key, value in info.items() if key != "episode"} | {
            f"episode.{key}": info["episode"][key] for key in "rl" if "episode" in info
        }

    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_equal(without_times(one), without_times(other))


class OnlyForItsMaker:
    """In a cycle, so that only the collector frees it, and as unforgiving in a foreign process as an EnvPool."""

    def __init__(self):
        self.itself = self
        self.process = os.getpid()

    def __del__(self):
        if os.getpid() != self.process:
            os.abort()


def test_a_forked_worker_leaves_its_parents_garbage_alone():
    gc.disable()  # so that the garbage is still there
    try:
        OnlyForItsMaker()
        env = make(CountingEnv)
        assert not gc.isenabled()
        env.reset()
        env.close()
    finally:
        gc.enable()
    env = make(CountingEnv)
    assert gc.isenabled()
    env.close()


@pytest.mark.parametrize("envs_per_worker", [1, 2, 5, None])
def test_workers_do_exactly_what_the_process_does(envs_per_worker):
    workers = make_vec_env(
        RandomEnv,
        5,
        seed=3,
        vec_env_cls=SubprocVecEnv,
        vec_env_kwargs={"start_method": START, "envs_per_worker": envs_per_worker},
    )
    inside = make_vec_env(RandomEnv, 5, seed=3)
    assert workers.observation_space == inside.observation_space
    np.testing.assert_array_equal(workers.reset(), inside.reset())
    generator = np.random.default_rng(0)
    ended = 0
    for number in range(80):
        actions = generator.uniform(-1, 1, (5, 2)).astype(np.float32)
        if number % 2:
            mine, other = workers.step(actions), inside.step(actions)
            for one, two in zip(mine[:3], other[:3], strict=True):
                np.testing.assert_array_equal(one, two)
                assert one.dtype == two.dtype
            assert_equal_infos(mine[3], other[3])
        else:
            mine, other = workers.step_arrays(actions), inside.step_arrays(actions)
            for name in ("observations", "rewards", "terminated", "truncated"):
                np.testing.assert_array_equal(getattr(mine, name), getattr(other, name))
            assert list(mine.infos) == list(other.infos)
            assert_equal_infos(list(mine.infos.values()), list(other.infos.values()))
            np.testing.assert_equal(dict(mine.final_observations), dict(other.final_observations))
            ended += len(mine.infos)
        assert workers.reset_infos == inside.reset_infos
    assert ended > 3
    workers.close()


@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_other_start_methods(start_method):
    env = SubprocVecEnv([lambda: gym.make("CartPole-v1")] * 2, start_method=start_method, envs_per_worker=2)
    inside = DummyVecEnv([lambda: gym.make("CartPole-v1")] * 2)
    env.seed(1), inside.seed(1)
    np.testing.assert_array_equal(env.reset(), inside.reset())
    for _ in range(12):
        mine, other = env.step(np.array([0, 1])), inside.step(np.array([0, 1]))
        np.testing.assert_array_equal(mine[0], other[0])
    env.close()


def test_the_fork_server_preloads_the_library_and_what_the_user_asked_for(tmp_path):
    script = tmp_path / "preload.py"
    script.write_text(
        textwrap.dedent(
            """
            import multiprocessing
            import sys

            import gymnasium as gym

            from proximo.envs import SubprocVecEnv

            class Loaded(gym.Wrapper):
                def modules(self):
                    return [name in sys.modules for name in ("colorsys", "wave", "proximo.envs.workers.worker")]

            if __name__ == "__main__":
                multiprocessing.set_forkserver_preload(["colorsys"])
                env = SubprocVecEnv([lambda: Loaded(gym.make("CartPole-v1"))], "forkserver")
                print(env.env_method("modules"))
                env.close()
            """
        )
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "[[True, False, True]]\n", done.stderr


def test_preloading_without_the_private_list():
    """The user's list of modules is in a private attribute of the standard library: without it, the usual one goes."""
    code = """
        from multiprocessing import forkserver
        from proximo.envs.workers.worker_pool import _preload_worker_module
        del forkserver._forkserver._preload_modules
        _preload_worker_module()
        print(forkserver._forkserver._preload_modules)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert done.stdout == "['proximo.envs.workers.fork_server', '__main__', 'proximo.envs.workers.worker']\n", (
        done.stderr
    )


def test_a_process_that_does_not_close_its_environments_ends(tmp_path):
    """Not by atexit, which processes of multiprocessing skip: they send daemons a SIGTERM, and wait for them."""
    script = tmp_path / "unclosed.py"
    script.write_text(
        textwrap.dedent(
            """
            import multiprocessing
            import signal

            kept = []

            def train():
                import gymnasium as gym

                from proximo.envs import SubprocVecEnv

                kept.append(SubprocVecEnv([lambda: gym.make("CartPole-v1")]))
                kept[0].reset()
                print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, flush=True)

            if __name__ == "__main__":
                for method in ("spawn", "forkserver"):  # such a server was not told to import the library
                    process = multiprocessing.get_context(method).Process(target=train)
                    process.start()
                    process.join(60)
                    print(process.exitcode)
                    process.kill()
            """
        )
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout == 2 * "True\n0\n", done.stderr


def test_dictionary_observations_and_options():
    env = make(partial(DictCountingEnv, length=2), partial(DictCountingEnv, length=3))
    env.seed(4)
    env.set_options([{"level": 1}, {}])
    first = env.reset()
    assert first["image"].shape == (2, 40, 36, 3)
    assert env.get_attr("reset_calls") == [[(4, {"level": 1})], [(5, None)]]
    assert env.reset_infos == [{"opened": 0}, {"opened": 0}]
    env.step_arrays([0, 0])
    step = env.step_arrays([0, 0])
    np.testing.assert_array_equal(step.observations["vector"], [[100, 100], [2, 2]])
    np.testing.assert_array_equal(step.final_observations[0]["image"][3, 3], [0, 2, 0])
    assert env.reset_infos == [{"opened": 1}, {"opened": 0}]
    np.testing.assert_array_equal(first["vector"], [[0, 0], [0, 0]])
    env.close()


def test_access_to_single_environments():
    env = make(*[lambda n=n: Monitor(CountingEnv(n, render_mode="rgb_array")) for n in (3, 4, 5)], envs_per_worker=2)
    assert env.get_attr("length") == [3, 4, 5]
    assert env.get_attr("length", indices=[2, 0]) == [5, 3]
    assert env.env_method("double", 10, indices=-1) == [25]
    env.set_attr("extra", "x", indices=[1])
    assert env.get_attr("extra", indices=1) == ["x"]
    assert not env.has_attr("extra")
    assert env.has_attr("double")
    assert env.env_is_wrapped(Monitor) == [True] * 3
    env.reset()
    assert env.render().shape == (8, 12, 3)
    with pytest.raises(EnvWorkerError, match=r"environment 0 failed in worker process \d+: AttributeError"):
        env.get_attr("extra")
    assert env.get_attr("length") == [3, 4, 5]  # a question that failed closes nothing
    env.close()
    env.close()
    with pytest.raises(RuntimeError, match="is closed"):
        env.reset()


def test_actions_that_are_no_arrays():
    class TupleActions(CountingEnv):
        def __init__(self):
            super().__init__(9)
            self.action_space = gym.spaces.Tuple([gym.spaces.Discrete(2), gym.spaces.Text(5)])

    env = make(TupleActions, TupleActions)
    env.reset()
    env.step([(0, "a"), (1, "b")])
    env.step_arrays([(1, "c"), (0, "d")])
    assert env.get_attr("last_action") == [(1, "c"), (0, "d")]
    env.close()


def test_an_exception_comes_with_traceback_and_index():
    env = make(CountingEnv, CountingEnv, partial(TroubleEnv, "exception"), envs_per_worker=2)
    env.reset()
    env.step_arrays([0, 0, 0])
    with pytest.raises(
        EnvWorkerError, match=r"environment 2 failed in worker process \d+: ValueError: the pole broke"
    ) as caught:
        env.step_arrays([0, 0, 0])
    text = str(caught.value)
    assert "in step\n    raise ValueError" in text
    assert "raised by environment 2" in text
    assert env.closed


@pytest.mark.parametrize(
    ("trouble", "words"),
    [("constructor", "environment 1 failed .* OSError: no such simulator"), ("reset", "environment 1 .* KeyError")],
)
def test_exceptions_before_the_first_step(trouble, words):
    with pytest.raises(EnvWorkerError, match=words):
        make(CountingEnv, partial(TroubleEnv, trouble)).reset()


@pytest.mark.parametrize(
    ("trouble", "how", "start_method"),
    [
        ("exit", "ended with exit code 7", "fork"),
        ("SIGKILL", "was killed by signal SIGKILL", "fork"),
        ("SIGKILL", "was killed by signal SIGKILL", "forkserver"),
        ("SIGSEGV", "was killed by signal SIGSEGV", "forkserver"),
    ],
)
def test_a_dead_worker_is_named_at_once(trouble, how, start_method):
    # the worker before it is busy for a minute: it must not be waited for
    env = make(
        partial(TroubleEnv, "sleep"),
        partial(TroubleEnv, trouble),
        CountingEnv,
        envs_per_worker=1,
        start_method=start_method,
    )
    env.reset()
    env.step_arrays([0, 0, 0])
    processes = env.processes
    env.step_async([0, 0, 0])
    with pytest.raises(WorkerDiedError, match=f"which runs environment 1, {how}"):
        env.step_wait()
    assert not any(process.is_alive() for process in processes)
    assert processes[0].exitcode == -signal.SIGKILL  # ended while it slept


def test_a_worker_killed_between_steps():
    env = make(*[CountingEnv] * 4, envs_per_worker=2)
    env.reset()
    os.kill(env.processes[1].pid, signal.SIGKILL)
    env.processes[1].join()
    with pytest.raises(WorkerDiedError, match="which runs environments 2 to 3, was killed by signal SIGKILL"):
        env.get_attr("length")
    assert not env.processes[0].is_alive()


def test_an_unread_step_is_finished_first():
    env = make(partial(CountingEnv, 9))
    env.reset()
    env.step_async([0])
    assert env.get_attr("step_count") == [1]  # as after Ctrl-C between the two halves of a step
    env.step_async([0])
    assert env.waiting
    env.close()
    with pytest.raises(RuntimeError, match="no step is under way"):
        make(CountingEnv).step_wait()


def test_an_interrupt_half_way_leaves_nothing_to_hang_on(monkeypatch):
    env = make(*[partial(CountingEnv, 9)] * 3, envs_per_worker=1)
    env.reset()
    receive = type(env._pool.handles[0]).receive
    calls = []

    def interrupted(handle):
        calls.append(handle)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return receive(handle)

    monkeypatch.setattr(type(env._pool.handles[0]), "receive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        env.step_arrays([0, 0, 0])
    monkeypatch.undo()
    np.testing.assert_array_equal(env.step_arrays([0, 0, 0]).observations[:, 0], [2, 2, 2])
    env.close()


def test_garbage_collection_ends_workers():
    env = make(CountingEnv, CountingEnv)
    processes = env.processes
    held = env.step_arrays  # a bound method keeps it alive
    del env
    gc.collect()
    assert all(process.is_alive() for process in processes)
    del held
    gc.collect()
    assert not any(process.is_alive() for process in processes)


def test_arrays_outlive_their_environment():
    env = VecNormalize(make(CountingEnv), norm_obs=False, norm_reward=False)
    env.reset()
    observations = env.venv.step_arrays([0]).observations
    env.close()
    del env
    gc.collect()
    np.testing.assert_array_equal(observations, [[1, 1]])


def test_workers_end_when_their_parent_is_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent(
            """
            import os, sys, time
            sys.path.insert(0, sys.argv[1])
            from counting_envs import CountingEnv
            from proximo.envs import SubprocVecEnv
            if __name__ == "__main__":
                env = SubprocVecEnv([CountingEnv] * 3, start_method="fork", envs_per_worker=1)
                env.reset()
                print(*[process.pid for process in env.processes], flush=True)
                time.sleep(60)
            """
        )
    )
    folder = str(Path(__file__).parent)
    parent = subprocess.Popen([sys.executable, str(script), folder], stdout=subprocess.PIPE, text=True)
    workers = [int(word) for word in parent.stdout.readline().split()]
    assert len(workers) == 3
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 10
    while any(_running(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(_running(pid) for pid in workers)


def _running(pid):
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0]
    except FileNotFoundError:
        return False


def test_shared_arrays_are_seen_by_both_and_aligned():
    layout = {"a": ((3,), np.dtype(np.float32)), "b": ((2, 2), np.dtype(np.int64)), "none": ((0, 2), np.dtype(bool))}
    mine = SharedArrays.create(layout)
    theirs = SharedArrays(mine.path, layout)
    mine.forget_name()
    theirs.arrays["b"][1] = 7
    np.testing.assert_array_equal(mine.arrays["b"], [[0, 0], [7, 7]])
    assert all(array.ctypes.data % 64 == 0 for array in mine.arrays.values())
    assert mine.arrays["none"].shape == (0, 2)


@pytest.mark.parametrize("nameless", [True, False])
def test_shared_memory_has_no_name_longer_than_needed(nameless, monkeypatch):
    if not nameless:  # as on systems that have no such files
        monkeypatch.setattr("proximo.envs.workers.shared_memory._nameless_file", lambda folder: None)
    arrays = SharedArrays.create({"a": ((3,), np.dtype(np.float32))})
    names = list(Path("/dev/shm").glob(f"proximo-{os.getpid()}-*"))
    assert [str(name) for name in names] == ([] if nameless else [arrays.path])
    arrays.forget_name()
    with pytest.raises(FileNotFoundError):
        SharedArrays(arrays.path, arrays.layout)
    arrays.arrays["a"][:] = 1.0
    arrays.forget_name()
    assert arrays.arrays["a"].sum() == 3.0


def test_wrong_arguments():
    with pytest.raises(ValueError, match="no environment factories"):
        SubprocVecEnv([])
    with pytest.raises(ValueError, match="at least 1, got 0"):
        make(CountingEnv, envs_per_worker=0)
