# SPDX-License-Identifier: BSD-2-Clause
"""Kernels for the guests: Debian's packages, fetched and unpacked under build/, or a tree that somebody built.

Nothing is installed on this machine. A private package list (build/guest/apt) is used, for the 6.12 kernel comes
from bookworm-backports, which the machine's own list need not have.
"""
import lzma
import os
import re
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from common import FILES, HERE, Failure, locked, output, program, say, tool

# What init inserts, before and after it has a root. Others are found by modprobe in the guest.
MODULES = '''virtio_pci virtio_net virtio_console 9pnet_virtio 9p overlay crc32_generic crc32c_generic ib_uverbs
rdma_cm rdma_ucm rdma_rxe sch_netem virtio_rng'''.split()
# Drivers of machines that a guest is not.
LEFT_OUT = '''drivers/gpu drivers/media drivers/staging drivers/iio drivers/usb drivers/hid drivers/input drivers/mmc
drivers/net/wireless drivers/net/ethernet drivers/scsi drivers/isdn drivers/bluetooth drivers/platform sound
net/bluetooth net/mac80211 net/wireless'''.split()
TRIES = 3


class Kernel:
    """A bootable kernel: image, modules (lib/modules/VERSION in `tree`), initramfs."""

    def __init__(self, folder, image, modules):
        # init looks for the modules before it has its root: a link in the path would lead elsewhere
        # there.
        self.folder, self.image, self.modules = folder, image, modules.resolve()
        self.version = modules.name
        self.initramfs = folder / 'initramfs'


# ---- fetching ------------------------------------------------------------------------------------


def mirror():
    """The archive this machine uses, in the hope that it is a near one."""
    lists = [Path('/etc/apt/sources.list'), *sorted(Path('/etc/apt/sources.list.d').glob('*'))]
    for path in lists:
        if path.is_file():
            found = re.search(r'^(?:URIs:|deb(?: \[[^]]*\])?)\s+(https?://\S+/debian)/?(?:\s|$)', path.read_text(), re.M)
            if found:
                return found[1]
    return 'http://deb.debian.org/debian'


def apt(*words, cwd=None):
    """apt with our own lists and cache."""
    base = FILES / 'apt'
    for name in ('lists/partial', 'cache/archives/partial', 'etc'):
        (base / name).mkdir(parents=True, exist_ok=True)
    (base / 'status').touch()
    url, signed = mirror(), '[arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'
    security = url.replace('/debian', '/debian-security') if 'deb.debian.org' in url else \
        'http://security.debian.org/debian-security'
    (base / 'etc/sources.list').write_text(
        f'deb {signed} {url} bookworm main\n'
        f'deb {signed} {url} bookworm-updates main\n'
        f'deb {signed} {url} bookworm-backports main\n'
        f'deb {signed} {security} bookworm-security main\n')
    options = {'Dir::State': base, 'Dir::State::lists': base / 'lists', 'Dir::State::status': base / 'status',
               'Dir::Cache': base / 'cache', 'Dir::Etc::sourcelist': base / 'etc/sources.list',
               'Dir::Etc::sourceparts': '-', 'Acquire::Retries': '3', 'Acquire::Languages': 'none',
               'APT::Sandbox::User': 'root' if os.geteuid() == 0 else '', 'APT::Architecture': 'amd64',
               'Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled': 'false'}
    given = [word for key, value in options.items() for word in ('-o', f'{key}={value}')]
    return output(tool(words[0], 'apt'), *given, '-q', *words[1:], cwd=cwd, env={**os.environ, 'LC_ALL': 'C'})


def persistent(what, *words, **more):
    """An archive may be slow to answer, or be renewed at this moment."""
    for turn in range(TRIES):
        try:
            return apt(*words, **more)
        except Failure as failure:
            if turn == TRIES - 1:
                raise Failure(f'{what}: {failure}. Without a network, put a kernel package (linux-image-*-amd64*.deb) '
                              f'into {FILES}/packages, or give --kernel a folder') from None
            say(f'{what}: {failure}: trying again')


def sort_key(version):
    return [(1, int(part)) if part.isdigit() else (0, part) for part in re.findall(r'\d+|[a-z+]+', version)]


def newest_package(version):
    """linux-image-X-amd64 with X = VERSION or VERSION.something, the newest of them."""
    persistent('package lists', 'apt-get', 'update')
    names = apt('apt-cache', 'pkgnames', 'linux-image-').split()
    wanted = re.compile(rf'linux-image-({re.escape(version)}(?:[.+-][0-9a-z.+-]*)?)-amd64$')
    found = [name for name in names if (match := wanted.match(name)) and not re.search('cloud|rt|dbg', match[1])]
    if not found:
        raise Failure(f'Debian has no kernel {version} (in bookworm and its backports); '
                      'it has: ' + ' '.join(sorted(set(re.findall(r'linux-image-(\d+\.\d+)\.', ' '.join(names))))))
    return max(found, key=sort_key)


def fetch(version):
    """The package file of a kernel, from build/guest/packages or from Debian."""
    packages = FILES / 'packages'
    packages.mkdir(parents=True, exist_ok=True)
    have = [p for p in packages.glob('linux-image-*.deb') if re.match(rf'linux-image-{re.escape(version)}[.+-]', p.name)]
    if have:
        return max(have, key=lambda p: sort_key(p.name))
    name = newest_package(version)
    say(f'fetching {name} (once)')
    persistent(name, 'apt-get', 'download', name, cwd=packages)
    return next(packages.glob(f'{name}_*.deb'))


# ---- unpacking -----------------------------------------------------------------------------------


def unpack(package, folder):
    """Image and modules of a package into a folder, which appears when it is complete."""
    fresh = folder.with_suffix('.new')
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    reader = subprocess.Popen(['dpkg-deb', '--fsys-tarfile', package], stdout=subprocess.PIPE)
    left_out = [f'--exclude=*/kernel/{name}' for name in LEFT_OUT]
    writer = subprocess.run(['tar', '-x', '-C', fresh, *left_out, '--wildcards', './boot/vmlinuz-*', './lib/modules', ],
                            stdin=reader.stdout, capture_output=True, text=True)
    if writer.returncode and 'Not found in archive' in writer.stderr:
        raise Failure(f'{package} is no package of a kernel image')
    if reader.wait() or writer.returncode:
        package.unlink()
        raise Failure(f'{package} is broken; it is taken away, try again')
    modules = next((fresh / 'lib/modules').iterdir())
    output(tool('depmod', 'kmod'), '-b', fresh, modules.name)
    next((fresh / 'boot').glob('vmlinuz-*')).rename(fresh / 'vmlinuz')
    uncompress(fresh / 'vmlinuz', fresh / 'vmlinux')
    fresh.rename(folder)


def uncompress(bzimage, made):
    """The kernel inside a bzImage: an emulated processor would take seconds to unpack it at each boot. QEMU starts such a
    kernel, too (CONFIG_PVH). One that is packed otherwise stays as it is."""
    data = bzimage.read_bytes()
    # The boot protocol says where the compressed kernel is, after the sectors of the real mode
    # part.
    offset, length = struct.unpack_from('<II', data, 0x248)
    start = (data[0x1f1] + 1) * 512 + offset
    packed = data[start:start + length]
    if packed[:6] == b'\xfd7zXZ\0':
        elf = lzma.LZMADecompressor().decompress(packed)
    elif packed[:4] == b'\x28\xb5\x2f\xfd':
        # Its last four bytes are no part of the stream.
        elf = subprocess.run([tool('zstd', 'zstd'), '-dc'], input=packed[:-4], stdout=subprocess.PIPE, check=True).stdout
    else:
        return
    if elf[:4] == b'\x7fELF':
        made.write_bytes(elf)


def closure(modules):
    """The modules of MODULES and what they need, in the order in which they can be inserted."""
    needs, builtin = {}, set()
    for line in (modules / 'modules.dep').read_text().splitlines():
        path, _, others = line.partition(':')
        needs[path] = others.split()
    if (modules / 'modules.builtin').exists():
        builtin = {Path(line).name.split('.')[0].replace('-', '_') for line in (modules / 'modules.builtin').read_text().splitlines()}
    by_name = {Path(path).name.split('.')[0].replace('-', '_'): path for path in needs}
    order = []
    for name in MODULES:
        path = by_name.get(name)
        if not path:
            if name not in builtin and not name.endswith('generic'):
                raise Failure(f'the kernel {modules.name} has no module {name}')
            continue
        for one in [*reversed(needs[path]), path]:
            if one not in order:
                order.append(one)
    return order


def module_bytes(path, scratch):
    """A module without its type information and its signature, which an emulated processor is slow to check."""
    if path.suffix in ('.xz', '.zst'):
        plain = scratch / 'packed.ko'
        plain.write_bytes(subprocess.run([path.suffix[1:], '-dc', path], check=True, stdout=subprocess.PIPE).stdout)
        path = plain
    output(tool('objcopy', 'binutils'), '--strip-debug', '-R', '.BTF', path, scratch / 'stripped.ko')
    return (scratch / 'stripped.ko').read_bytes()


# ---- initramfs -----------------------------------------------------------------------------------


def cpio(entries):
    """An archive in cpio's newc format of (name, mode, bytes)."""
    made = bytearray()

    def pad():
        made.extend(b'\0' * (-len(made) % 4))

    for number, (name, mode, data) in enumerate([*entries, ('TRAILER!!!', 0, b'')], 1):
        fields = [number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        made.extend(b'070701' + b''.join(b'%08X' % field for field in fields) + name.encode() + b'\0')
        pad()
        made.extend(data)
        pad()
    return bytes(made)


def is_dynamic(elf):
    """Whether a 64-bit ELF program asks for an interpreter."""
    at, size, count = struct.unpack_from('<Q14xHH', elf, 32)
    return any(struct.unpack_from('<I', elf, at + i * size)[0] == 3 for i in range(count))


def make_initramfs(kernel):
    """A new one when there is none, or when init or the agent are newer."""
    agent, busybox = program('agent'), Path(tool('busybox', 'busybox-static'))
    sources = [agent, HERE / 'init', busybox, Path(__file__), kernel.modules / 'modules.dep']
    if kernel.initramfs.exists() and kernel.initramfs.stat().st_mtime > max(s.stat().st_mtime for s in sources):
        return
    if is_dynamic(busybox.read_bytes()):
        raise Failure(f'{busybox} is not static: `make setup` installs one that is (package busybox-static)')
    folder, executable = stat.S_IFDIR | 0o755, stat.S_IFREG | 0o755
    entries = [(name, folder, b'') for name in ('bin', 'dev', 'proc', 'sys', 'modules')]
    entries += [('bin/busybox', executable, busybox.read_bytes()), ('init', executable, (HERE / 'init').read_bytes()),
                ('agent', executable, agent.read_bytes())]
    names = []
    with tempfile.TemporaryDirectory() as scratch:
        for path in closure(kernel.modules):
            names.append(f'{len(names):02}-{Path(path).name.split(".")[0]}.ko')
            data = module_bytes(kernel.modules / path, Path(scratch))
            entries.append((f'modules/{names[-1]}', stat.S_IFREG | 0o644, data))
    entries.append(('modules/order', stat.S_IFREG | 0o644, ('\n'.join(names) + '\n').encode()))
    fresh = kernel.initramfs.with_suffix('.new')
    fresh.write_bytes(cpio(entries))
    fresh.rename(kernel.initramfs)


# ---- what others call ----------------------------------------------------------------------------


def from_folder(path):
    """A tree somebody built: PATH/bzImage or arch/x86/boot/bzImage or vmlinuz, and lib/modules/VERSION
    (made by `make modules_install INSTALL_MOD_PATH=PATH`)."""
    images = [path / name for name in ('bzImage', 'vmlinuz', 'arch/x86/boot/bzImage') if (path / name).exists()]
    modules = [m for m in (path / 'lib/modules').glob('*') if m.is_dir()]
    if not images or len(modules) != 1:
        raise Failure(f'{path} is no kernel for guests: it needs a bzImage and one folder in lib/modules')
    if not (modules[0] / 'modules.dep').exists():
        output(tool('depmod', 'kmod'), '-b', path, modules[0].name)
    folder = FILES / 'kernel' / ('tree-' + str(path.resolve()).strip('/').replace('/', '-'))
    folder.mkdir(parents=True, exist_ok=True)
    return Kernel(folder, images[0], modules[0])


def from_debian(version):
    if not re.fullmatch(r'\d+\.\d+[0-9a-z.+-]*', version):
        raise Failure(f'--kernel takes a version (6.1, 6.12) or a folder, not {version}')
    folder = FILES / 'kernel' / version
    if not folder.exists():
        unpack(fetch(version), folder)
    image = folder / 'vmlinux'
    return Kernel(folder, image if image.exists() else folder / 'vmlinuz', next((folder / 'lib/modules').iterdir()))


def headers(which):
    """The folder of headers that modules for a kernel are built against: those installed, or Debian's packages, unpacked."""
    if '/' in which:
        folder = Path(which).absolute()
        build = from_folder(folder).modules / 'build'
        if not (build / 'Makefile').exists():
            raise Failure(f'{folder} has no headers: {build} is no folder that modules can be built against')
        return build.resolve()
    with locked(FILES / 'kernel/lock'):
        version = from_debian(which).version
        installed, folder = Path('/usr/src') / f'linux-headers-{version}', FILES / 'headers' / version
        made = folder / f'usr/src/linux-headers-{version}'
        if not (installed / 'Makefile').exists() and not folder.exists():
            unpack_headers(version, folder)
        return installed if (installed / 'Makefile').exists() else made


def unpack_headers(version, folder):
    base = version.removesuffix('-amd64')
    abi = re.sub(r'-\d+$', '', base)
    fresh = folder.with_suffix('.new')
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    persistent('package lists', 'apt-get', 'update')
    names = apt('apt-cache', 'pkgnames', 'linux-kbuild-').split()
    kbuild = max((name for name in names if f'linux-kbuild-{abi}'.startswith(name)), key=len)
    for name in (f'linux-headers-{version}', f'linux-headers-{base}-common', kbuild):
        say(f'fetching {name} (once)')
        persistent(name, 'apt-get', 'download', name, cwd=fresh)
        package = next(fresh.glob(f'{name}_*.deb'))
        output('dpkg-deb', '-x', package, fresh)
        package.unlink()
    # Its Makefile names the common part where a package is installed.
    makefile = fresh / f'usr/src/linux-headers-{version}/Makefile'
    makefile.write_text(makefile.read_text().replace('/usr/src/', f'{folder}/usr/src/'))
    fresh.rename(folder)


def get(which):
    """The kernel of a version or a folder, ready to boot."""
    with locked(FILES / 'kernel/lock'):
        kernel = from_folder(Path(which).absolute()) if '/' in which else from_debian(which)
        make_initramfs(kernel)
    return kernel


if __name__ == '__main__': # for scripts/build-kmod
    try:
        print(headers(sys.argv[1]))
    except Failure as failure:
        sys.exit(f'kernel.py: {failure}')
