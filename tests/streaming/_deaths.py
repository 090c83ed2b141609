"""Runs that die at one of their steps on the disk: of the process, as the system sees it, or in it, as a stand-in."""

import os
from pathlib import Path
from types import SimpleNamespace

from jaxunc.streaming import _run, _stream

SHIM = r"""
static int dies(void) { __sync_fetch_and_add(&calls, 1); return __sync_sub_and_fetch(&left, 1) == 0; }
static void die(void) { kill(getpid(), kind); pause(); }
ssize_t write(int fd, const void* b, size_t n) {
  REAL(write);
  if (is_ours(fd) && dies()) { if (n > 1) real(fd, b, n / 2); die(); }
  return real(fd, b, n); }
int rename(const char* a, const char* b) { REAL(rename); if (ours(a) && dies()) die(); return real(a, b); }
int unlink(const char* a) { REAL(unlink); if (ours(a) && dies()) die(); return real(a); }
int mkdir(const char* a, mode_t m) { REAL(mkdir); if (ours(a) && dies()) die(); return real(a, m); }
static int made(const char* a, int f, mode_t m, int (*real)(const char*, int, ...)) {
  if (ours(a) && (f & O_CREAT) && dies()) die(); return real(a, f, m); }
#define OPEN(name) int name(const char* a, int f, ...) { REAL(name); va_list l; va_start(l, f); \
  mode_t m = (f & O_CREAT) ? va_arg(l, mode_t) : 0; va_end(l); return made(a, f, m, real); }
OPEN(open)
OPEN(open64)
"""
EVERY = 32
"""Calls of the system from one death of a case to its next; as many cases have them all."""
PROGRAM = (
    f"EVERY = {EVERY}\n"
    + """
import ctypes, json, os, shutil, signal, sys
from pathlib import Path
import numpy, pandas, pyarrow.csv, pyarrow.parquet, sklearn.ensemble  # imported once, before any fork
import jaxunc.estimators, jaxunc.streaming, jaxunc.storage._decode, jaxunc.decisions
from jaxunc.streaming import predict_files
from tests.streaming._made import contents

shim = ctypes.CDLL(None)
model, data, whole, again, given = sys.argv[1:6]
settings, moments = json.loads(given), json.loads(sys.argv[6])

def run(number, at):
    # JAX computes in children alone.
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            shim.shim_set(int(number), at)
            predict_files(model, data, again, **settings)
            os.write(writer, str(shim.shim_calls()).encode())
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writer)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    calls = os.read(reader, 99)
    os.close(reader)
    return code, calls.decode()

expected = contents(Path(whole))
for ats in moments if type(moments) is list else [[n] for n in range(moments, 10_000, EVERY)]:
    shutil.rmtree(again, ignore_errors=True)
    deaths = 0
    for i, at in enumerate(ats):
        number = (signal.SIGKILL, signal.SIGTERM)[(at + i) % 2]
        code, calls = run(number, at)
        assert code in (0, -number), (ats, code)
        deaths += code != 0
    code, _ = run(0, 0)
    assert code == 0, ats
    found = contents(Path(again))
    assert found == expected, (ats, [name for name in found | expected if found.get(name) != expected.get(name)])
    print(ats, deaths, flush=True)
    if type(moments) is int and not deaths:  # behind the last call
        break
"""
)


class Death(BaseException):
    """What no handler of errors catches."""


class Steps:
    """Counts the steps of a run on the disk; at one it dies, and no later step is taken, as if none were left to."""

    def __init__(self, monkeypatch):
        self.taken, self._last = 0, 0
        of_paths = [(Path, name) for name in ("write_bytes", "unlink", "mkdir")]
        for owner, name in [*of_paths, (os, "replace"), (os, "open"), (_run.Run, "finish")]:
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))
        release = _run._release

        def let_go(handle, path):
            try:
                release(handle, path)
            except Death:
                os.close(handle)  # as the system does of a process that is dead
                raise

        monkeypatch.setattr(_run, "_release", let_go)
        opened = _stream.PartWriter._open

        def open_counted(*own):
            writer = opened(*own)
            return SimpleNamespace(write_table=self._counted(writer.write_table), close=self._counted(writer.close))

        monkeypatch.setattr(_stream.PartWriter, "_open", self._counted(open_counted))

    def begin(self, last: int) -> None:
        """From now on, die at this step; 0: never."""
        self.taken, self._last = 0, last

    def _counted(self, step):
        def taken(*args, **options):
            self.take()
            return step(*args, **options)

        return taken

    def take(self) -> None:
        self.taken += 1
        if 0 < self._last <= self.taken:
            raise Death
