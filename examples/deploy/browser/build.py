"""Put the page together:  python build.py FOLDER [--policy policy.onnx]

The page, onnxruntime-web's three files (fetched by npm, kept in FOLDER/../npm) and a policy; without --policy one is
trained, which takes Proximo and some seconds.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tarfile
from pathlib import Path

PACKAGE, VERSION = "onnxruntime-web", "1.23.2"
RUNTIME = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
PAGE = ("index.html", "page.js", "cartpole.js")
HERE = Path(__file__).parent


def build(folder: Path, policy: Path | None = None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in PAGE:
        shutil.copyfile(HERE / name, folder / name)
    unpack(fetch(folder.parent / "npm"), folder / "ort")
    if policy is None:
        train(folder / "policy.onnx")
    else:
        shutil.copyfile(policy, folder / "policy.onnx")


def fetch(cache: Path) -> Path:
    """onnxruntime-web's package, downloaded once."""
    archive = cache / f"{PACKAGE}-{VERSION}.tgz"
    if not archive.is_file():
        if (npm := shutil.which("npm")) is None:
            raise SystemExit("npm is missing, which fetches onnxruntime-web: install Node.js")
        cache.mkdir(parents=True, exist_ok=True)
        subprocess.run([npm, "pack", "--silent", f"{PACKAGE}@{VERSION}"], cwd=cache, check=True)
    return archive


def unpack(archive: Path, folder: Path) -> None:
    """The few files of the package that a page needs."""
    folder.mkdir(exist_ok=True)
    with tarfile.open(archive) as package:
        for name in RUNTIME:
            stream = package.extractfile(f"package/dist/{name}")
            if stream is None:
                raise SystemExit(f"{archive} holds no {name}")
            (folder / name).write_bytes(stream.read())


def train(target: Path) -> None:
    """A policy that balances: PPO with the preset's values of CartPole-v1."""
    from proximo import PPO, make_vec_env

    model = PPO(
        "MlpPolicy", make_vec_env("CartPole-v1", n_envs=8, seed=1), n_steps=32, batch_size=256, n_epochs=20, seed=1,
        gae_lambda=0.8, gamma=0.98, learning_rate=lambda left: 1e-3 * left, clip_range=lambda left: 0.2 * left,
    )  # fmt: skip
    print(model.learn(100_000).export(target))


def main() -> None:
    parser = argparse.ArgumentParser(description="Put the page together.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--policy", type=Path, help="file written by `proximo export` for CartPole-v1")
    arguments = parser.parse_args()
    build(arguments.folder, arguments.policy)
    print(f"python -m http.server -d {arguments.folder}")


if __name__ == "__main__":
    main()
