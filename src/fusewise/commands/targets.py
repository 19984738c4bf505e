"""`FILE.py:NAME` and `module:NAME`: the function or module that a command works on, and its inputs."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import itertools
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from fusewise.commands.inputs import GRAMMAR, InputSpec, TensorSpec, make_input, parse_inputs
from fusewise.errors import UnknownName, UsageError

EXAMPLES = "example_inputs"
SEED = 0

_loads = itertools.count()


@dataclass(frozen=True, slots=True)
class Target:
    """What a command works on.

    Attributes:
        name: as the user wrote it.
        function: a function or an `nn.Module`.
        args, kwargs: its inputs.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def load_target(text: str, inputs: Sequence[str] = (), device: str = "cpu", inference: bool = False) -> Target:
    """The function and its inputs: those of `--input`, else the file's own `example_inputs`.

    Args:
        text: `FILE.py:NAME` or `package.module:NAME`.
        inputs: the `--input` options.
        device: where the tensors of `--input` are made, and a module and example inputs are moved. `meta`: the former
            have no data, and the latter stay where they are.
        inference: put a module in evaluation mode.

    Raises:
        UsageError: whatever does not fit, with the nearest right thing.
    """
    specs = parse_inputs(inputs)
    place, name = split_target(text)
    module = _import(place)
    function = _function(module, place, name)
    args, kwargs = _inputs(module, function, text, specs, device)
    _check_call(function, text, args, kwargs, given=bool(specs))
    if device not in ("cpu", "meta"):
        args, kwargs = _moved(args, device), _moved(kwargs, device)
        if hasattr(function, "to"):
            function = function.to(device)
    if inference and hasattr(function, "eval"):
        function = function.eval()
    return Target(text, function, args, kwargs)


def split_target(text: str) -> tuple[str, str]:
    """(file or module, name)."""
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name:
        example = f"{text}:NAME" if text.endswith(".py") else "model.py:block or package.module:block"
        raise UsageError(f"{text!r} names no function.", f"Write FILE.py:NAME or module:NAME, as in {example}")
    return place, name


def _import(place: str) -> ModuleType:
    if place.endswith(".py") or "/" in place:
        return _import_file(Path(place))
    if not all(part.isidentifier() for part in place.split(".")):
        raise UsageError(f"{place!r} is neither a Python file nor a module.", "Write FILE.py:NAME or module:NAME.")
    try:
        with _importable(Path.cwd()):
            return importlib.import_module(place)
    except ModuleNotFoundError as cause:
        if cause.name is None or not (place == cause.name or place.startswith(cause.name + ".")):
            raise UsageError(f"importing {place} failed: {_reason(cause)}") from cause
        file = Path(*place.split(".")).with_suffix(".py")
        hint = f"There is a file {file}: write {file}:NAME." if file.is_file() else "Is it installed? Try FILE.py:NAME."
        raise UsageError(f"no module {place!r}.", hint) from cause
    except (Exception, SystemExit) as cause:
        raise UsageError(f"importing {place} failed: {_reason(cause)}") from cause


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"no file {path}.", _nearest_file(path))
    root, package = _package_of(path.resolve())
    # no name that anybody imports, so that a file called json.py harms nobody; and a new one each time, since Dynamo
    # remembers modules by name; below its package, for relative imports
    name = ".".join([*package, f"{path.stem} {next(_loads)} of the command line"])
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file.", "Write FILE.py:NAME or module:NAME.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _importable(path.resolve().parent, last=(root, Path.cwd())):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as cause:
        raise UsageError(f"{path} cannot be imported: {_reason(cause, path)}") from cause
    return module


def _package_of(path: Path) -> tuple[Path, list[str]]:
    """The folder that the packages of a file lie in, and their names, outermost first; the file's own and none."""
    folder, names = path.parent, list[str]()
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        names.insert(0, folder.name)
        folder = folder.parent
    return folder, names


@contextmanager
def _importable(first: Path, last: Sequence[Path] = ()) -> Iterator[None]:
    """The user's folders on the path: one before all others while the block runs, as Python does for a program.

    Afterwards they are the last, for what the user's functions import when they run: a `types.py` there then hides
    no module that others import.
    """
    sys.path[:0] = [str(first)]
    sys.path += [str(folder) for folder in last]
    try:
        yield
    finally:
        with suppress(ValueError):  # where the imported file took it away
            sys.path.remove(str(first))
        sys.path.append(str(first))


def _nearest_file(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"There is no folder {folder} either."
    files = sorted(f.name for f in folder.glob("*.py"))
    near = get_close_matches(path.name, files, n=1)
    return f"Did you mean {folder / near[0]}?" if near else f"Python files in {folder}: {', '.join(files) or 'none'}."


def _reason(cause: BaseException, path: Path | None = None) -> str:
    """Kind and first line of an error, with the line of the user's file where it arose."""
    text = str(cause.msg if isinstance(cause, SyntaxError) else cause).strip().partition("\n")[0]
    problem = f"{type(cause).__name__}: {text}" if text else type(cause).__name__
    if path is None:
        return problem
    if isinstance(cause, SyntaxError):
        return f"{problem} at line {cause.lineno}"
    own = [frame.lineno for frame in traceback.extract_tb(cause.__traceback__) if frame.filename == str(path.resolve())]
    return f"{problem} at line {own[-1]}" if own else problem


_NOT_OF_TENSORS = (
    ("coroutine", inspect.iscoroutinefunction),
    ("generator", inspect.isgeneratorfunction),
    ("generator", inspect.isasyncgenfunction),
)


def _function(module: ModuleType, place: str, name: str) -> Callable[..., Any]:
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            known = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_") and _is_own(module, v)]
            raise UnknownName(f"name in {place}:", name, known or ["nothing that can be called"])
        found = getattr(found, part)
    if not callable(found):
        raise UsageError(f"{place}:{name} is of type {type(found).__name__}, not a function or a module.")
    if inspect.isclass(found):
        try:
            found = found()
        except TypeError as cause:
            problem = f"{place}:{name} is a class that needs arguments: {cause}."
            raise UsageError(problem, "Name an object that the file has made already.") from cause
        except (Exception, SystemExit) as cause:
            raise UsageError(f"{place}:{name} cannot be made: {_reason(cause)}") from cause
        if not callable(found):
            raise UsageError(f"what {place}:{name} makes cannot be called.", "Name a method of an object: NAME.method")
    called = getattr(found, "forward", found)
    for kind, is_of_kind in _NOT_OF_TENSORS:
        if is_of_kind(called):
            raise UsageError(f"{place}:{name} is a {kind}: what it computes is not what a call of it returns.")
    function: Callable[..., Any] = found
    return function


def _is_own(module: ModuleType, value: Any) -> bool:
    return getattr(value, "__module__", module.__name__) == module.__name__ or not inspect.isroutine(value)


def _inputs(
    module: ModuleType, function: Callable[..., Any], text: str, specs: Sequence[InputSpec], device: str
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if specs:
        return _from_specs(function, text, specs, device)
    examples = getattr(module, EXAMPLES, None)
    if examples is None:
        if all(p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in _parameters(function)):
            return (), {}
        shown = ", ".join(p.name for p in _parameters(function))
        raise UsageError(
            f"{text} needs inputs ({shown}), and its file has no {EXAMPLES}.",
            f'Give each with --input, as in --input "x:f32[1024,1024]" ({GRAMMAR}),\n'
            f"or define {EXAMPLES}, a function or a list, in the file.",
        )
    if callable(examples):
        try:
            examples = examples()
        except (Exception, SystemExit) as cause:
            raise UsageError(f"{EXAMPLES}() of {text} failed: {_reason(cause)}") from cause
    if isinstance(examples, dict):
        return (), dict(examples)
    if isinstance(examples, (tuple, list)):
        return tuple(examples), {}
    return (examples,), {}


def _from_specs(
    function: Callable[..., Any], text: str, specs: Sequence[InputSpec], device: str
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    import torch

    parameters = _parameters(function)
    names = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    spread = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    for spec in specs:
        if spec.name not in names and not takes_any and not spread:
            raise UnknownName(f"input of {text}:", spec.name, names or ["none: it takes no inputs"])
    generator = None if device == "meta" else torch.Generator(device=device).manual_seed(SEED)
    values = {spec.name: _made(spec, device, generator) for spec in specs}
    by_position = {p.name for p in parameters if p.kind is p.POSITIONAL_ONLY}
    if spread:
        by_position |= set(names)  # what follows *args can only come after them
    args = [values.pop(n) for n in names if n in by_position and n in values]
    if spread and not takes_any:
        args += [values.pop(n) for n in list(values) if n not in names]
    return tuple(args), values


def _made(spec: InputSpec, device: str, generator: Any) -> Any:
    try:
        return make_input(spec, device, generator)
    except (RuntimeError, MemoryError, OverflowError, TypeError) as cause:  # more memory than there is, or 64 bits
        sizes = list(spec.sizes) if isinstance(spec, TensorSpec) else ""
        raise UsageError(f"input {spec.name}{sizes} cannot be made: {_reason(cause)}") from cause


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(getattr(function, "forward", function)).parameters.values())
    except (TypeError, ValueError):  # a built-in without a signature takes what it takes
        return [inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)]


def _check_call(
    function: Callable[..., Any], text: str, args: tuple[Any, ...], kwargs: dict[str, Any], given: bool
) -> None:
    """Raises where the inputs, `given` with --input or else the file's own, do not fit the signature."""
    try:
        signature = inspect.signature(getattr(function, "forward", function))
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as cause:
        problem = f"the inputs do not fit {text}{signature}: {cause}."
        remedy = f"Inputs are written {GRAMMAR}." if given else f"They are the {EXAMPLES} of the file."
        raise UsageError(problem, remedy) from None


def _moved(value: Any, device: str) -> Any:
    from torch import Tensor
    from torch.utils._pytree import tree_map

    def move(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or leaf.device.type == device.partition(":")[0]:
            return leaf
        return leaf.detach().to(device).requires_grad_(leaf.requires_grad)

    return tree_map(move, value)
