# SPDX-License-Identifier: BSD-2-Clause
"""What the parts of scripts/cluster share: places, errors, programs built from C."""
import fcntl
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
HERE = TOP / 'tests/rig'
BUILD = TOP / 'build/cluster'          # a folder for each cluster
FILES = TOP / 'build/guest'            # kernels and programs, for all of them


class Failure(Exception):
    """Something the user is told in one line; the exit status is 1 unless given."""

    def __init__(self, text, status=1):
        super().__init__(text)
        self.status = status


def say(*words):
    print('cluster:', *words, file=sys.stderr, flush=True)


def output(*command, **more):
    """What a command prints; a Failure with the end of its errors when it fails."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, **more)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()[-4:]
        raise Failure(f'{command[0]} failed ({done.returncode}): ' + '; '.join(lines))
    return done.stdout


def tool(name, package):
    """The path of a program, or a Failure that names its package."""
    for folder in os.environ.get('PATH', '').split(':') + ['/usr/sbin', '/sbin', '/usr/bin', '/bin']:
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK):
            return path
    raise Failure(f'there is no {name}: `make setup` installs it (package {package})')


@contextmanager
def locked(path):
    """Hold a lock file: two starts may want the same kernel at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, 'w') as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def compiled(name, source, *command, libraries=()):
    """The path of a program or object that command makes of tests/rig/SOURCE, if that was not done."""
    made, source = FILES / 'bin' / name, HERE / source
    newest = max(path.stat().st_mtime for path in [source, *HERE.glob('*.h')])
    with locked(FILES / 'bin/lock'):
        if not made.exists() or made.stat().st_mtime < newest:
            fresh = made.with_name(name + '.new')
            output(*command, '-o', fresh, source, *libraries)
            fresh.rename(made)
    return made


def program(name, *libraries):
    """Compile tests/rig/NAME.c; static, as the guest has it in its RAM disk."""
    return compiled(name, f'{name}.c', os.environ.get('CC', 'cc'), '-std=gnu11', '-O2', '-Wall', '-Wextra', '-static',
                    libraries=libraries)


def bpf_object(name):
    """Compile tests/rig/NAME.bpf.c, which the guests' kernel loads."""
    return compiled(f'{name}.bpf.o', f'{name}.bpf.c', tool('clang', 'clang'), '-target', 'bpf', '-D__TARGET_ARCH_x86',
                    '-I/usr/include/x86_64-linux-gnu', '-g', '-O2', '-Wall', '-c')
