# SPDX-License-Identifier: BSD-2-Clause
"""Sources of kernels: Debian's packages linux-source-V, fetched once, of which all or one folder is unpacked."""
import subprocess

from common import TOP, Failure, say
import kernel

FOLDER = TOP / 'build/debug-kernel'


def package(version):
    """The package with the source of a version (6.1)."""
    packages, name = FOLDER / 'packages', f'linux-source-{version}'
    packages.mkdir(parents=True, exist_ok=True)
    if not list(packages.glob(f'{name}_*.deb')):
        say(f'fetching {name} (once)')
        kernel.persistent('package lists', 'apt-get', 'update')
        kernel.persistent(name, 'apt-get', 'download', name, cwd=packages)
    return next(packages.glob(f'{name}_*.deb'))


def package_version(file):
    return file.name.split('_')[1].split('-')[0]


def unpack(file, folder, *parts):
    """Make the folder of a package: of the whole source, or of these folders of it."""
    name, fresh = file.name.split('_')[0], folder.with_name('new')
    subprocess.run(['rm', '-rf', fresh], check=True)
    fresh.mkdir(parents=True)
    say('unpacking', file.name)
    reader = subprocess.Popen(['dpkg-deb', '--fsys-tarfile', file], stdout=subprocess.PIPE)
    inner = subprocess.Popen(['tar', '-xO', f'./usr/src/{name}.tar.xz'], stdin=reader.stdout, stdout=subprocess.PIPE)
    subprocess.run(['tar', '-xJ', '-C', fresh, '--strip-components=1', *(f'{name}/{part}' for part in parts)], stdin=inner.stdout,
                   check=True)
    if reader.wait() or inner.wait():
        file.unlink()
        raise Failure(f'{file} is broken; it is taken away, try again')
    fresh.rename(folder)
