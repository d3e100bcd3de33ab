"""Pushing to and pulling from the hub, with the real client against a stand-in of it."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import tomllib
import warnings
import zipfile
from contextlib import suppress
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import stable_baselines3
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

pytest.importorskip("huggingface_hub")
import huggingface_hub
from huggingface_hub import constants

from proximo import PPO
from proximo.analysis.evaluation import Evaluation
from proximo.cli import hub as command
from proximo.cli.main import main
from proximo.cli.runs import Run
from proximo.errors import MissingExtraError, ModelFileError
from proximo.hub import HubError, pull
from proximo.hub.card import Subject, check_no_secrets, model_card
from proximo.hub.listing import choose, read_listing
from proximo.training.run_folder import to_toml
from proximo.version import __version__

from .stand_in import StandIn, serving

TOKEN = "hf_thisIsASecret"
REPOSITORY = "ada/ppo-CartPole-v1"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    words = ["--steps", "256", "--n-steps", "64", "--envs", "4", "--seed", "3", "--eval-episodes", "2"]
    assert main(["train", "CartPole-v1", *words, "--normalize", "true", "--runs-dir", str(folder)]) == 0
    (made,) = folder.iterdir()
    return made


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    with serving() as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.address)
        template = hub.address + "/{repo_id}/resolve/{revision}/{filename}"  # made when the package was imported
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.chdir(tmp_path)
        yield hub


def pushed(run: Path, *words: str) -> None:
    assert main(["hub", "push", str(run), REPOSITORY, "--episodes", "4", *words]) == 0


def downloads(hub: StandIn) -> set[str]:
    return {path.rpartition("/")[2] for _, path in hub.requests if "/resolve/" in path}


# ------------------------------------------------------------------------------------------------------------- pushing


def test_what_is_pushed_can_be_pulled_and_plays_the_same(run, hub, tmp_path, capfd):
    pushed(run, "--without-film")
    methods = [(method, path.partition("/lfs/")[0]) for method, path in hub.requests]
    assert ("PUT", "") in methods, "the model goes by LFS"
    assert hub.tokens == {f"Bearer {TOKEN}"}
    files = hub.repositories[REPOSITORY]
    assert sorted(files) == ["README.md", "config.toml", "model.zip", "results.json", "versions.json"]
    assert files["model.zip"] == (run / "model.zip").read_bytes()

    assert main(["hub", "pull", REPOSITORY, "-o", "pulled"]) == 0
    results = json.loads((tmp_path / "pulled" / "results.json").read_text())
    capfd.readouterr()
    assert main(["evaluate", "pulled", "--episodes", "4"]) == 0
    printed = capfd.readouterr().out
    assert f"{results['mean_reward']:.2f}" in printed
    assert "{:.2f} … {:.2f}".format(*results["interval_95"]) in printed
    assert Run.open(tmp_path / "pulled").config.without_seed() == Run.open(run).config.without_seed()
    assert not Run.open(tmp_path / "pulled").config.session, "what was done on the other machine stays there"


def test_metadata_is_what_leaderboards_read(run, hub):
    pushed(run, "--without-film")
    card = huggingface_hub.ModelCard(hub.repositories[REPOSITORY]["README.md"].decode())
    results = json.loads(hub.repositories[REPOSITORY]["results.json"])
    (result,) = card.data.eval_results
    assert (result.task_type, result.dataset_name, result.metric_type) == (
        "reinforcement-learning", "CartPole-v1", "mean_reward",
    )  # fmt: skip
    mean, deviation = map(float, result.metric_value.split(" +/- "))
    assert mean == pytest.approx(results["mean_reward"], abs=0.005)
    assert deviation == pytest.approx(results["std_reward"], abs=0.005)
    assert card.data.library_name == "proximo"
    assert {"CartPole-v1", "reinforcement-learning", "deep-reinforcement-learning", "ppo"} <= set(card.data.tags)


def test_usage_of_the_card_works_when_pasted(run, hub, tmp_path, capfd):
    pushed(run, "--without-film")
    card = hub.repositories[REPOSITORY]["README.md"].decode()
    (shell,) = re.findall(r"```bash\n(.*?)```", card, re.DOTALL)
    install, *commands = [line.split() for line in shell.strip().splitlines()]
    # no index of packages has Proximo: a card that names it there would send its readers to whoever takes the name
    assert install[:5] == ["pip", "install", "-c", "constraints.txt", "'.[hub,classic]'"]
    assert " ".join(install[5:]) == f"# in a checkout of Proximo {__version__}"
    for name, *words in commands[:2]:  # watch films, which has its own tests
        assert name == "proximo"
        assert main(words) == 0
    capfd.readouterr()
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    (tmp_path / "elsewhere").mkdir()
    settings = {"HF_ENDPOINT": hub.address, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(tmp_path / "hf")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / "elsewhere", env={**os.environ, **settings}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.match(r"mean return .* over 10 episodes", done.stdout)
    assert (tmp_path / "elsewhere" / "ppo-CartPole-v1" / "model.zip").exists()


def test_a_dry_run_writes_everything_and_asks_nobody(run, hub, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("proximo.cli.playing.FILM_SECONDS", 0.2)
    pushed(run, "--dry-run", "card")
    assert hub.requests == []
    card = tmp_path / "card"
    film = next(path.name for path in card.iterdir() if path.stem == "replay")
    assert (card / film).stat().st_size > 1000
    assert film in (card / "README.md").read_text()
    printed = "".join(capfd.readouterr())
    for path in card.iterdir():
        assert TOKEN.encode() not in path.read_bytes()
    assert TOKEN not in printed
    assert main(["hub", "push", str(run), REPOSITORY, "--dry-run", "card"]) == 2
    assert "card exists" in capfd.readouterr().err


def test_nothing_of_this_machine_is_pushed(run, hub):
    pushed(run, "--without-film")
    text = b"".join(content for path, content in hub.repositories[REPOSITORY].items() if path != "model.zip").decode()
    assert "session" not in text
    assert "platform" not in text
    assert str(run.parent) not in text


@pytest.mark.parametrize("name", ["model.zip", "config.toml", "versions.json"])
def test_a_file_of_the_reader_is_not_pushed(name, run, hub, tmp_path, capfd):
    """A stranger's run folder may have links to what is private."""
    copy = shutil.copytree(run, tmp_path / "copy")
    (copy / name).rename(tmp_path / "private")
    (copy / name).symlink_to(tmp_path / "private")
    for words in ([], ["--dry-run", "card"]):
        assert main(["hub", "push", str(copy), REPOSITORY, "--without-film", *words]) == 2
        assert f"{name} leads out of the run folder" in capfd.readouterr().err
    assert hub.requests == []
    assert not (tmp_path / "card").exists()


def test_a_pipe_in_a_run_folder_stalls_no_push(run, hub, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    (copy / "versions.json").unlink()
    os.mkfifo(copy / "versions.json")
    pushed(copy, "--without-film", "--dry-run", "card")
    assert "python" in json.loads((tmp_path / "card" / "versions.json").read_text())


@pytest.mark.parametrize("key", ["api_key", "hub-token", "PASSWORD", "my_secret"])
def test_secrets_of_a_configuration_are_not_pushed(key, run, hub, tmp_path, capfd):
    copy = shutil.copytree(run, tmp_path / "copy")
    config = (copy / "config.toml").read_text().partition("[session]")[0]
    (copy / "config.toml").write_text(f'{config}\n[env_kwargs]\n{key} = "{TOKEN}"\n')
    assert main(["hub", "push", str(copy), REPOSITORY, "--without-film", "--dry-run", "card"]) == 2
    error = capfd.readouterr().err
    assert f"env_kwargs.{key} in config.toml has the name of a secret" in error
    assert TOKEN not in error
    assert not (tmp_path / "card").exists()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"servers": [{"token": TOKEN}]}, "servers.token"),
        ({"password": [TOKEN]}, "password"),
        ({"credentials": {"user": TOKEN}}, "credentials"),
        ({"authToken": TOKEN}, "authToken"),
        ({"HFToken": TOKEN}, "HFToken"),
    ],
)
def test_secrets_within_others_are_found(arguments, name):
    with pytest.raises(HubError, match=rf"env_kwargs\.{name} in config.toml has the name of a secret") as caught:
        check_no_secrets({"env_kwargs": arguments})
    assert TOKEN not in str(caught.value)


def test_words_that_only_sound_like_secrets_are_pushed():
    check_no_secrets(
        {"env_kwargs": {"max_tokens": "9", "token": 3, "monkey": "x", "secretary": "y"}, "policy": "MlpPolicy"}
    )
    check_no_secrets({"env_kwargs": {"maxTokens": "9", "names": ["token"], "sizes": [{"monkey": "x"}]}})


def test_a_configuration_does_not_leave_its_block_of_the_card():
    from markdown_it import MarkdownIt

    hostile = "x\n```\n<img src=x onerror=alert(1)>\n# title\n[link](javascript:alert(1))"
    config = to_toml({"env": "CartPole-v1", "env_kwargs": {hostile: hostile, "list": [hostile, {"a": "```\n<b>"}]}})
    subject = Subject(
        repository=REPOSITORY, env="CartPole-v1", algo="ppo", title="PPO", config=config,
        evaluation=Evaluation((1.0, 2.0), (1, 2)), seed=0, steps=10,
    )  # fmt: skip
    body = model_card(subject).split("\n---\n", 1)[1]
    tokens = MarkdownIt("commonmark").parse(body)
    assert [token.info for token in tokens if token.type == "fence"] == ["bash", "python", "toml"]
    assert tokens[-1].type == "fence"
    assert tomllib.loads(tokens[-1].content)["env_kwargs"][hostile] == hostile
    inline = [child.type for token in tokens for child in token.children or []]
    assert not {"html_inline", "link_open", "image"} & set(inline)
    assert not any(token.type == "html_block" for token in tokens)


def test_who_may_not_write_is_told_to_log_in(run, hub, capfd):
    hub.refuse_writes = True
    assert main(["hub", "push", str(run), REPOSITORY, "--episodes", "1", "--without-film"]) == 2
    error = capfd.readouterr().err
    assert "hf auth login" in error
    assert TOKEN not in error


# ------------------------------------------------------------------------------------------------------------- pulling


def offer(run: Path, hub: StandIn) -> None:
    """A repository of a run, as if it had been pushed."""
    config = (run / "config.toml").read_bytes().partition(b"[session]")[0]
    hub.repositories[REPOSITORY] = {"model.zip": (run / "model.zip").read_bytes(), "config.toml": config}


def sb3_repository(hub: StandIn, normalize: bool = True) -> tuple[stable_baselines3.PPO, VecNormalize, bytes]:
    """A repository as RL Baselines3 Zoo pushes it, with more in it than is wanted."""
    env = VecNormalize(DummyVecEnv([lambda: gymnasium.make("CartPole-v1")]), clip_obs=5.0)
    model = stable_baselines3.PPO("MlpPolicy", env, n_steps=64, seed=1, device="cpu").learn(128)
    zipped, pickled = io.BytesIO(), pickle.dumps(env)
    model.save(zipped)
    hub.repositories["sb3/ppo-CartPole-v1"] = {
        "ppo-CartPole-v1.zip": zipped.getvalue(),
        **({"vec_normalize.pkl": pickled} if normalize else {}),
        "train_eval_metrics.zip": b"PK",
        "README.md": b"# A model\n",
        "run.py": b"raise SystemExit",
        "setup.py": b"raise SystemExit",
        "config.yml": b"!!python/object/apply:os.system [false]",
        "../escaped.zip": b"PK",
        "ppo-CartPole-v1/policy.pth": b"PK",
    }
    return model, env, zipped.getvalue()


def test_a_repository_of_stable_baselines3(hub, tmp_path):
    theirs, env, _ = sb3_repository(hub)
    folder = pull("sb3/ppo-CartPole-v1", tmp_path / "pulled")
    assert downloads(hub) == {"ppo-CartPole-v1.zip", "vec_normalize.pkl", "README.md"}
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "config.toml", "model.zip"]
    assert not (tmp_path / "escaped.zip").exists()
    run = Run.open(folder)
    assert (run.config.env, run.config.algo) == ("CartPole-v1", "ppo")
    assert run.config.preset.normalize["clip_obs"] == 5.0
    ours = PPO.load(folder / "model.zip")
    np.testing.assert_allclose(ours.normalizer_statistics()["obs_rms.mean"], env.obs_rms.mean)
    observations = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    np.testing.assert_array_equal(ours.predict(observations, deterministic=True)[0],
                                  theirs.predict(observations, deterministic=True)[0])  # fmt: skip
    assert main(["evaluate", str(folder), "--episodes", "2"]) == 0


class Calls:
    """A pickle that runs a command when a careless reader loads it."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


@pytest.mark.parametrize("place", ["normalizer", "model"])
def test_pickles_of_a_stranger_are_not_run(place, hub, tmp_path):
    _, _, zipped = sb3_repository(hub)
    files, marker = hub.repositories["sb3/ppo-CartPole-v1"], tmp_path / "was_run"
    hostile = pickle.dumps(Calls(marker))
    if place == "normalizer":
        files["vec_normalize.pkl"] = hostile
    else:
        changed = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(zipped)) as old, zipfile.ZipFile(changed, "w") as new:
            for name in old.namelist():
                new.writestr(name, hostile if name == "policy.pth" else old.read(name))
        files["ppo-CartPole-v1.zip"] = changed.getvalue()
    with pytest.raises(ModelFileError):
        pull("sb3/ppo-CartPole-v1", tmp_path / "pulled")
    assert not marker.exists()
    assert not (tmp_path / "pulled").exists()
    assert not list(tmp_path.glob(".proximo-*")), "nothing is left behind"


@pytest.mark.parametrize("name", ["../model.zip", "/tmp/model.zip", "a/model.zip", "..\\model.zip", ".zip", "x\n.zip"])
def test_names_of_a_stranger_are_no_paths(name, hub, tmp_path):
    hub.repositories["eve/model"] = {name: b"PK", "config.toml": b""}
    with pytest.raises(HubError, match="holds no model"):
        pull("eve/model", tmp_path / "pulled")
    assert downloads(hub) == set()


def test_sizes_are_judged_before_anything_is_downloaded(hub, tmp_path):
    hub.repositories["eve/model"] = {"model.zip": b"PK", "config.toml": b"", "replay.mp4": b"film"}
    hub.listed_sizes["model.zip"] = 5 * 10**9
    with pytest.raises(HubError, match=r"model\.zip has 5,000,000,000 bytes"):
        pull("eve/model", tmp_path / "pulled")
    hub.listed_sizes = {"config.toml": 10**9}
    with pytest.raises(HubError, match=r"config\.toml has"):
        pull("eve/model", tmp_path / "pulled")
    assert downloads(hub) == set()


def test_a_film_that_is_too_long_is_left_out_and_said(run, hub, tmp_path):
    pushed(run, "--without-film")
    hub.repositories[REPOSITORY]["replay.mp4"] = b"film"
    hub.listed_sizes["replay.mp4"] = 10**9
    with pytest.warns(UserWarning, match=r"left out, because too long: replay\.mp4"):
        pull(REPOSITORY, tmp_path / "pulled")
    assert "replay.mp4" not in downloads(hub)


def test_a_file_that_is_not_as_listed_is_refused(run, hub, tmp_path):
    pushed(run, "--without-film")
    hub.listed_sizes["results.json"] = 7
    with pytest.raises(HubError, match=r"results\.json is not the file that the repository lists"):
        pull(REPOSITORY, tmp_path / "pulled")
    assert not (tmp_path / "pulled").exists()


def test_a_configuration_imports_no_package(run, hub, tmp_path):
    pushed(run, "--without-film")
    files = hub.repositories[REPOSITORY]
    files["config.toml"] = files["config.toml"].replace(b'"CartPole-v1"', b'"evil_package:CartPole-v1"', 1)
    files["config.toml"] += b'\n[session]\ninit_from = "/etc/passwd"\n'
    with pytest.warns(UserWarning, match="would import a package"):
        folder = pull(REPOSITORY, tmp_path / "pulled")
    assert not (folder / "config.toml").exists()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        folder = pull(REPOSITORY, tmp_path / "chosen", env="CartPole-v1")
    assert Run.open(folder).config.env == "CartPole-v1"
    assert "session" not in (folder / "config.toml").read_text()


def test_arguments_of_an_environment_that_may_name_things_are_said(run, hub, tmp_path):
    offer(run, hub)
    files = hub.repositories[REPOSITORY]
    config = files["config.toml"]
    files["config.toml"] = config + b"\n[env_kwargs]\nsutton_barto_reward = true\nmax_episode_steps = 9\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pull(REPOSITORY, tmp_path / "numbers")
    files["config.toml"] = config + b'\n[env_kwargs]\nsize = 3\nvehicle = "os.system"\nconfig = { type = "os" }\n'
    with pytest.warns(UserWarning, match=r"'CartPole-v1' more than numbers: 'vehicle', 'config'; .*read env_kwargs"):
        pull(REPOSITORY, tmp_path / "texts")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('algo = "ppo"', "algo = []", "algo a list; expected a run's"),
        ('algo = "ppo"', 'algo = "os.system"', "expected a run's"),
        ('env = "CartPole-v1"', "env = {}", "env a dict"),
        ("n_steps = 64", 'env_wrapper = "os.system"', "the wrapper os.system, which this version does not have"),
        ("n_steps = 64", 'env_wrapper = { FrameSkip = { entry_point = "x:y" } }', "FrameSkip the argument 'entry_p"),
        ("n_steps = 64", "frame_stack = 1_000_000_000", "at most 1,024"),
        ("n_steps = 64", "a." * 1000 + "a = 1", "a dotted name of more than"),
    ],
)
def test_a_configuration_that_is_no_runs_is_refused(old, new, message, run, hub, tmp_path):
    offer(run, hub)
    files = hub.repositories[REPOSITORY]
    files["config.toml"] = files["config.toml"].replace(old.encode(), new.encode(), 1)
    with pytest.raises((HubError, ModelFileError), match=message):
        pull(REPOSITORY, tmp_path / "pulled")
    assert not (tmp_path / "pulled").exists()


def test_the_token_stays_with_the_hub(run, hub, tmp_path):
    offer(run, hub)
    pull(REPOSITORY, tmp_path / "pulled")
    assert any(path.startswith("/lfs/") for _, path in hub.requests)
    assert hub.hosts_with_token == {"127.0.0.1"}, "large files come from another host, which must not see it"


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://127.0.0.1/model.zip", "http://127.0.0.1:9/model.zip"])
def test_a_redirect_leads_to_no_file_and_ends_in_one_line(address, run, hub, tmp_path, capfd):
    offer(run, hub)
    hub.redirect = address
    capfd.readouterr()
    assert main(["hub", "pull", REPOSITORY, "-o", "pulled"]) == 2
    assert f"pulling {REPOSITORY} failed" in capfd.readouterr().err
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_a_file_that_goes_on_behind_its_length_is_refused(run, hub, tmp_path, capfd):
    offer(run, hub)
    hub.added = bytes(10_000)
    capfd.readouterr()
    assert main(["hub", "pull", REPOSITORY, "-o", "pulled"]) == 2
    assert "error: " in capfd.readouterr().err
    assert not list(tmp_path.iterdir())


def test_texts_of_a_repository_say_nothing_to_the_terminal(run, hub, tmp_path, capfd):
    offer(run, hub)
    files = hub.repositories[REPOSITORY]
    files["config.toml"] = files["config.toml"].replace(b"CartPole-v1", b"Cart\\u001b[2JPole-v1")
    files["\x1b]0;title\x07.zip"] = b"PK"
    assert main(["hub", "pull", REPOSITORY, "-o", "pulled"]) == 0
    assert main(["evaluate", "pulled"]) == 2
    told = "".join(capfd.readouterr())
    assert "Cart?[2JPole-v1" in told
    assert "\x1b" not in told


def test_a_damaged_model_is_refused(run, hub, tmp_path):
    pushed(run, "--without-film")
    hub.repositories[REPOSITORY]["model.zip"] = b"PK\x03\x04" + bytes(100)
    with pytest.raises(ModelFileError):
        pull(REPOSITORY, tmp_path / "pulled")
    assert not (tmp_path / "pulled").exists()


def test_which_of_several_models(hub, tmp_path):
    files = {"ppo-Hopper.zip": 3, "ppo-Ant.zip": 3}
    with pytest.raises(HubError, match=r"--file: 'ppo-Hopper\.zip', 'ppo-Ant\.zip'"):
        choose(files)
    assert choose(files, "ppo-Ant.zip").model == "ppo-Ant.zip"
    with pytest.raises(HubError, match=r"has no model '\.\./x\.zip'"):
        choose({**files, "../x.zip": 1}, "../x.zip")
    with pytest.raises(HubError, match="more than 10,000 files"):
        read_listing((f"{number}.txt", 1) for number in range(10_001))
    with pytest.raises(HubError, match="without its size"):
        read_listing([("a.zip", None)])


def test_errors_are_one_line(hub, tmp_path, monkeypatch, capfd):
    assert main(["hub", "pull", "ada/nothing"]) == 2
    assert "the hub knows no such repository" in capfd.readouterr().err
    assert main(["hub", "pull", "../nothing"]) == 2
    assert "names no repository" in capfd.readouterr().err
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    assert main(["hub", "pull", "ada/nothing", "-o", "taken"]) == 2
    assert "taken exists" in capfd.readouterr().err
    assert main(["hub", "pul"]) == 2
    assert "did you mean 'pull'" in capfd.readouterr().err
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert main(["hub", "pull", "ada/nothing"]) == 2
    assert "cannot be reached" in capfd.readouterr().err


def test_without_the_package_the_install_command_is_named(run, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'proximo\[hub\]'"):
        command.push([str(run), REPOSITORY, "--dry-run", str(tmp_path / "card")])
    with pytest.raises(MissingExtraError, match=r"pip install 'proximo\[hub\]'"):
        pull(REPOSITORY, tmp_path / "pulled")


@pytest.mark.parametrize("words", [["hub"], ["hub", "push"], ["hub", "pull"]])
def test_help_has_an_example(words, capfd):
    with suppress(SystemExit):
        assert main([*words, "--help"]) == 0
    assert "proximo hub" in capfd.readouterr().out
