"""The C interface by cffi. The installed headers are read: no struct, default or constant is repeated here."""

import contextlib
import os
import re
import shutil
import subprocess
import threading
import types
import weakref
from pathlib import Path

from cffi import FFI


def _config():
    """The milcgpu-config of the prefix or the source tree that has this file; else the one in PATH."""
    for folder in Path(__file__).resolve().parents:
        for place in ("bin", "milc_glue/use_gpu"):
            if (folder / place / "milcgpu-config").is_file():
                return str(folder / place / "milcgpu-config")
    found = shutil.which("milcgpu-config")
    if found is None:
        raise ImportError("milcgpu-config is not in PATH: install milcgpu (make install), then add PREFIX/bin to PATH")
    return found


def _places():
    """The folder of the headers, and the library."""
    config = _config()
    words = {}
    for option in ("--cflags", "--libs"):
        run = subprocess.run([config, option], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        words[option] = run.stdout.strip()
    headers = re.match(r"-I(.*?)(?: -I|$)", words["--cflags"])
    library = re.match(r"-L(.*?) -Wl,", words["--libs"])
    if not headers or not library or not Path(library[1], "libmilcgpu.so").exists():
        raise ImportError(config + " leads to no libmilcgpu.so: build or install milcgpu (make lib, make install)")
    return Path(headers[1]), Path(library[1], "libmilcgpu.so")


def _declarations(folder):
    """The declarations of the headers, those first that others include, and the fractions that they #define. Headers that
    contain functions (for MPI, for MILC) are left out."""
    texts, numbers = {}, {}

    def add(name):
        text = (folder / name).read_text()
        if name in texts or "static inline" in text:
            return
        texts[name] = ""  # holds the place: no header includes itself
        for other in re.findall(r'#include "(milcgpu\w*\.h)"', text):
            add(other)
        text = re.sub(r"/\*.*?\*/|#ifdef __cplusplus.*?#endif", " ", text, flags=re.S)
        for key, value in re.findall(r"^#define MILCGPU_(\w+) \(?(-?[0-9]+\.[0-9]+)\)? *$", text, flags=re.M):
            numbers[key] = float(value)
        texts.pop(name)
        texts[name] = re.sub(r"^#.*$", "", text, flags=re.M)

    for header in sorted(folder.glob("milcgpu*.h")):
        add(header.name)
    return "".join(texts.values()), numbers


_headers, _library = _places()
_text, _numbers = _declarations(_headers)
ffi = FFI()
ffi.cdef(_text)
lib = ffi.dlopen(str(_library))
version = ffi.string(lib.milcgpu_version()).decode()


def constant(name):
    """A constant of the headers without its prefix, for example "DOUBLE"."""
    if name in _numbers:
        return _numbers[name]
    if hasattr(lib, "MILCGPU_" + name):
        return getattr(lib, "MILCGPU_" + name)
    raise AttributeError(f"the headers of milcgpu {version} have no MILCGPU_{name}")


class Error(RuntimeError):
    """A call of the library that failed, with the library's message.

    status: milcgpu_status; name: its name, for example "BAD_ARGUMENT"; result: what the method would have returned, if
    the library has filled the outputs (NOT_CONVERGED, PRECISION_FLOOR); else None.
    """

    def __init__(self, status, message, result=None):
        self.status = status
        self.name = ffi.string(lib.milcgpu_status_name(status)).decode()
        self.result = result
        super().__init__(f"{self.name}: {message}")


Error.__module__ = "milcgpu"  # as tracebacks name it


_thread = threading.local()  # .raised: the exception of a callback, until its call has returned


def call(function, *arguments, result=None):
    """Calls a function with a status. Raises Error, or what a callback raised."""
    _thread.raised = None
    status = function(*arguments)
    if _thread.raised is not None:
        raise _thread.raised
    if status != lib.MILCGPU_OK:
        filled = status in (lib.MILCGPU_NOT_CONVERGED, lib.MILCGPU_PRECISION_FLOOR)
        raise Error(status, _text_of(lib.milcgpu_last_error()), result() if filled and result else None)


def _text_of(value):
    is_text = isinstance(value, ffi.CData) and ffi.typeof(value).cname == "char *"
    return ffi.string(value).decode(errors="replace") if is_text else value


def c_text(text):
    """The bytes of a text or a path. ValueError: a zero byte, where C would end it."""
    made = os.fsencode(text)
    if b"\0" in made:
        raise ValueError(f"{text!r} has a zero byte")
    return made


def callback(kind, function):
    """A Python function as a C callback without its `user`. Its results 0 and None are alike, text arrives as str. What
    it raises is raised again by `call`; until then it is not called again, and its result is 1."""
    returns = ffi.typeof(kind).result if isinstance(kind, str) else kind.result

    def guarded(user, *arguments):
        if getattr(_thread, "raised", None) is None:
            try:
                result = function(*map(_text_of, arguments))
                return None if returns.kind == "void" else ffi.new(f"{returns.cname} *", int(result or 0))[0]
            except BaseException as raised:
                _thread.raised = raised
        return None if returns.kind == "void" else 1

    return ffi.callback(kind, guarded)


_kept = weakref.WeakKeyDictionary()  # for each struct the memory that its members point to


def _value(kind, value):
    """A Python value for a member of a struct, and the memory that must live as long as the struct."""
    if kind.kind == "function" or (kind.kind == "pointer" and kind.item.kind == "function"):
        made = ffi.NULL if value is None else callback(kind, value)
    elif value is None:
        made = ffi.NULL
    elif hasattr(value, "pointer"):
        made = value.pointer
    elif kind.cname == "milcgpu_storage" and not isinstance(value, dict):
        return {"precision": value}, value
    elif kind.cname == "char *":
        made = ffi.new("char[]", c_text(value))
    elif kind.kind == "pointer" and not isinstance(value, ffi.CData):
        made = ffi.new(kind.item.cname + "[]", list(value))
    else:
        return value, value
    return made, made


def struct(name, defaults=None, **members):
    """A struct milcgpu_<name>: the library's defaults, then `members`. A precision suffices for a milcgpu_storage, a
    list or an array for a pointer to numbers (it is copied), a Python function for a callback.

    defaults: the function of the defaults and its first arguments, if it is not called <name>_defaults: ("hisq",).
    """
    made = ffi.new(f"milcgpu_{name} *")
    kind = ffi.typeof(made).item
    fields = dict(kind.fields)
    function, *arguments = defaults or (name[: -len("_spec")] if name.endswith("_spec") else name,)
    if hasattr(lib, f"milcgpu_{function}_defaults"):
        getattr(lib, f"milcgpu_{function}_defaults")(*arguments, made, ffi.sizeof(kind))
    elif "struct_size" in fields:
        made.struct_size = ffi.sizeof(kind)
    for member, value in members.items():
        if member not in fields:
            raise TypeError(f"milcgpu_{name} has no member {member!r}: it has {', '.join(fields)}")
        value, memory = _value(fields[member].type, value)
        setattr(made, member, value)
        _kept.setdefault(made, []).append(memory)
    return made


def unpack(c):
    """A struct of the library as a Python object with its members; pointers are left out."""
    if not isinstance(c, ffi.CData):
        return c
    kind = ffi.typeof(c)
    if kind.kind == "pointer":
        return unpack(c[0])
    if kind.kind == "array":
        return ffi.string(c).decode(errors="replace") if kind.item.cname == "char" else [unpack(item) for item in c]
    members = [name for name, field in kind.fields if field.type.kind not in ("pointer", "function")]
    return types.SimpleNamespace(**{name: unpack(getattr(c, name)) for name in members})


@contextlib.contextmanager
def watched(progress, title, fraction):
    """The callback for `progress`: a function, or None; or, if it is True, a bar of tqdm (none if it is not
    installed). fraction(*arguments of the callback): how much is done, 0 to 1."""
    if progress is not True:
        yield progress or None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        yield None
        return
    with tqdm(desc=title, total=100, bar_format="{desc}: {percentage:3.0f}%|{bar}| {elapsed}") as bar:
        yield lambda *arguments: bar.update(max(0, int(100 * min(fraction(*arguments), 1)) - bar.n)) and None
