"""Files that appear whole or not at all: bytes, JSON, safetensors, folders."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alu.errors import StorageError

fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None  # not on Windows

if TYPE_CHECKING:
    from torch import Tensor


@contextmanager
def explained(path: Path, doing: str = "write") -> Iterator[None]:
    """Turn the system's errors about a path into one sentence each."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageError(
                f"Cannot {doing} {path}: the disk is full. Free some space and run the command again."
            ) from error
        raise StorageError(f"Cannot {doing} {path}: {error.strerror or error}.") from error


@contextmanager
def _parents(path: Path) -> Iterator[None]:
    """Make the folders above `path`; those that are still empty when the block ends are removed again."""
    new = [folder for folder in path.parents if not folder.exists()]  # the innermost first
    try:
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        yield
    finally:
        for folder in new:
            with suppress(OSError):  # it holds what was written
                folder.rmdir()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary file beside `path` that takes its place when the block ends well, and vanishes otherwise."""
    with explained(path), _parents(path):
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            os.chmod(temporary, 0o644)
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: Path, is_ours: Callable[[Path], bool]) -> Iterator[Path]:
    """The same for a folder; one that already stands there is replaced only if `is_ours` says it may be."""
    if path.exists() and not (path.is_dir() and (is_ours(path) or not any(path.iterdir()))):
        raise StorageError(f"{path} is already there and was not written by alu. Choose another place.")
    with explained(path), _parents(path):
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            yield temporary
            os.chmod(temporary, 0o755)
            if path.exists():
                old = temporary.with_name(temporary.name + ".old")
                os.replace(path, old)
                try:
                    os.replace(temporary, path)
                except BaseException:  # Ctrl-C too must not cost the user the folder that was there
                    os.replace(old, path)
                    raise
                shutil.rmtree(old, ignore_errors=True)
            else:
                os.replace(temporary, path)
        except StorageError as error:  # the user knows the folder's own name, not the temporary one
            raise StorageError(str(error).replace(str(temporary), str(path))) from error
        finally:
            with suppress(OSError):
                shutil.rmtree(temporary)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Refuse a second process that would write to the same place while this one does.

    The lock is a file beside `path`, gone when the block ends; the system releases it when a process is killed.
    """
    whole = path.absolute()
    lock = whole.with_name(f".{whole.name}.lock")
    with _parents(whole):
        with explained(path):
            handle = _acquire(lock, path)
        try:
            yield
        finally:
            _release(handle, lock)


def _acquire(lock: Path, path: Path) -> int:
    """An open lock file that holds this process's number and the time."""
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not _is_free(handle):
                raise StorageError(f"{path} is being written by {_holder(lock)}. Wait for it, or choose another place.")
            # Whoever held the file may have removed it in between; then the lock is on a file that nobody else sees.
            if lock.exists() and os.path.samestat(os.fstat(handle), os.stat(lock)):
                now = datetime.now().isoformat(timespec="seconds")
                os.lseek(handle, 0, os.SEEK_SET)
                os.ftruncate(handle, 0)
                os.write(handle, f"{os.getpid()} {now}\n".encode())
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _release(handle: int, lock: Path) -> None:
    if fcntl is not None:
        lock.unlink(missing_ok=True)  # while it is still locked: a file that another process has locked must stay
    os.close(handle)
    if fcntl is None:  # Windows cannot remove an open file
        lock.unlink(missing_ok=True)


def _is_free(handle: int) -> bool:
    """Lock the file; where the system has no locks, see whether the process that it names is still running."""
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # some network file systems have no locks
            pass
        else:
            return True
    number = os.read(handle, 100).split()[:1]
    return not (number and number[0].isdigit() and _is_running(int(number[0])))


def _is_running(process: int) -> bool:
    if sys.platform == "win32":  # where os.kill would end it
        import ctypes

        kernel = ctypes.WinDLL("kernel32")
        opened = kernel.OpenProcess(0x1000, False, process)
        return bool(opened and kernel.CloseHandle(opened))
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        pass
    return True


def _holder(lock: Path) -> str:
    """Who holds a lock, as far as its file says."""
    with suppress(OSError, ValueError):
        number, since = lock.read_text().split()
        time = datetime.fromisoformat(since)
        when = time.strftime("%H:%M:%S" if time.date() == datetime.now().date() else "%Y-%m-%d %H:%M:%S")
        return f"another alu (process {number}, running since {when})"
    return "another alu"  # it has not written its number yet


def write_json(path: Path, value: Any, indent: int | None = 2) -> None:
    """Write JSON (two-space indent, keys in the order given); without indent on one line, which is much faster."""
    text = json.dumps(value, indent=indent, allow_nan=False) + "\n"
    with replacing(path) as temporary:
        temporary.write_text(text)


def read_json(path: Path) -> Any:
    """Read JSON, or say what is wrong with the file."""
    with explained(path, "read"):
        content = path.read_bytes()
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        raise StorageError(f"{path} is not valid JSON (line {error.lineno}: {error.msg}).") from error
    except UnicodeDecodeError as error:
        raise StorageError(f"{path} is not valid JSON: it is not text.") from error


def checksum(plain: dict[str, Any]) -> str:
    """SHA-256 of plain values in a fixed spelling; NaN and infinite numbers are refused with a ValueError."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def write_checked(path: Path, plain: dict[str, Any], indent: int | None = 2) -> None:
    """Write plain values as JSON with their checksum, so that an edited or damaged file is noticed."""
    write_json(path, {**plain, "checksum": checksum(plain)}, indent)


def read_checked(path: Path, what: str, advice: str) -> dict[str, Any]:
    """Read what `write_checked` wrote, without the checksum.

    Parameters
    ----------
    path
        The file.
    what
        What the file should be, for the error message: "a result of alu evaluate".
    advice
        What to do with a file that was changed, a sentence.
    """
    plain = read_json(path)
    if not isinstance(plain, dict) or "checksum" not in plain:
        raise StorageError(f"{path} is not {what}.")
    stated = plain.pop("checksum")
    try:
        intact = stated == checksum(plain)
    except ValueError:  # NaN and infinite numbers, which `write_checked` refuses
        intact = False
    if not intact:
        raise StorageError(f"{path} was changed after it was written: its checksum does not match. {advice}")
    return plain


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors as safetensors."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with replacing(path) as temporary:
        try:
            save_file(ready, temporary, metadata=dict(metadata) if metadata else None)
        except SafetensorError as error:  # its own type for a full disk, with the system's number in the text
            number = re.search(r"os error (\d+)", str(error))
            if number is None:
                raise
            raise OSError(int(number[1]), os.strerror(int(number[1]))) from error


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read safetensors; anything else, a pickle above all, is refused without being opened by torch."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    with explained(path, "read"):
        try:
            loaded: dict[str, Tensor] = load_file(path)
            return loaded
        except SafetensorError as error:
            raise StorageError(
                f"{path} is not a complete safetensors file ({error}). Copy it again if it was truncated. If it is "
                "a state_dict saved with torch.save, name it .pt and read it with alu.models.load_weights."
            ) from error


def sha256(path: Path) -> str:
    """The hexadecimal SHA-256 of a file."""
    with explained(path, "read"), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
