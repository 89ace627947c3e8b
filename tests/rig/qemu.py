# SPDX-License-Identifier: BSD-2-Clause
"""A guest as a QEMU process, and whether KVM can be used for it.

Everything a guest talks by is a socket that it inherits: nothing of it has a name in the file system. A guest dies
with the process that started it (PR_SET_PDEATHSIG, by setpriv), however that ends.
"""
import hashlib
import json
import os
import re
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from common import FILES, TOP, Failure, output, program, say, tool

PROBE_SECONDS = 10      # a guest under a KVM that works is up in two
COMMON = 16 << 20       # bytes
ARGUMENTS = 'console=ttyS0 mitigations=off net.ifnames=0 panic=-1 oops=panic'


def processor(accel):
    if accel == 'kvm':
        return ['-accel', 'kvm', '-cpu', 'host']
    # QEMU emulates string instructions byte by byte, so a guest shall not think that they are fast.
    # Five levels of page tables cost an emulated processor time in each miss of its TLB.
    return ['-accel', *(['tcg,thread=single', '-icount', 'shift=0,sleep=off'] if accel == 'icount' else ['tcg,thread=multi']),
            '-cpu', 'max,la57=off,erms=off,fsrm=off']


def clock(accel):
    """What an emulated guest is told of its time stamp counter, which is this machine's.

    With several processors its kernel takes the counter for unreliable, unless told otherwise, and a look at the clock becomes
    a system call and a trip to QEMU; the counter is one for all processors. And it measures the counter by a timer, which
    fails while this machine is busy: time then goes on by the tick, in steps of 4 ms, and stands still between.
    """
    if accel == 'kvm':
        return ''
    return ' tsc=reliable' + (f' tsc_early_khz={output(program("tsc")).strip()}' if accel == 'tcg' else '')


def machine(kernel, accel, cpus, memory, arguments):
    # Room for a second processor, though none is there: QEMU then emulates atomic instructions by
    # atomic ones, which memory that several guests share needs.
    room = max(cpus, 2)
    return [tool('setpriv', 'util-linux'), '--pdeathsig', 'KILL', tool('qemu-system-x86_64', 'qemu-system-x86'),
            '-nodefaults', '-no-user-config', '-display', 'none', '-no-reboot', '-machine', 'pc', *processor(accel),
            # Each a package: the table of processors for kernels without ACPI has only the first of
            # a package.
            '-smp', f'{cpus},maxcpus={room},sockets={room},cores=1,threads=1', '-m', str(memory),
            '-kernel', kernel.image, '-initrd', kernel.initramfs,
            '-append', f'{ARGUMENTS} {arguments}{clock(accel)}']


def share(tag, path, options):
    return ['-fsdev', f'local,id={tag},path={path},security_model=none,{options}',
            '-device', f'virtio-9p-pci,fsdev={tag},mount_tag={tag}']


def swap_disk(file, size, rate):
    """A disk of size MiB in an open file. rate limits its reads and writes per second, whatever their lengths; 0: no limit."""
    file.truncate(size << 20)
    limit = f',throttling.iops-total={rate}' if rate else ''
    # Its contents are worth nothing once the guest is gone.
    return ['-drive', f'if=none,id=swap,format=raw,cache=unsafe,file=/dev/fd/{file.fileno()}{limit}',
            '-device', 'virtio-blk-pci,drive=swap']


class Guest:
    """One guest. States: booting, up, frozen, dead."""

    def __init__(self, number):
        self.number, self.name, self.state = number, f'node{number}', 'booting'
        self.process = self.agent = self.monitor = None
        self.links = {}     # by interface that carries RDMA: plugged in
        self.why = ''

    def start(self, cluster, ports, common):
        """ports: the guest's ends of the networks, that for control last; common: memory of all guests, a file."""
        self.agent, agent = socket.socketpair()
        self.monitor, monitor = socket.socketpair()
        folder, k = cluster.folder, self.number
        self.links = dict.fromkeys(cluster.interfaces, True)
        arguments = ' '.join(f'cluster.{key}={value}' for key, value in {
            'node': k, 'nodes': cluster.nodes, 'top': TOP, 'share': folder / 'share',
            'modules': cluster.kernel.modules, 'nics': cluster.nics,
            'irqs': ','.join(map(str, cluster.irq_cpus)),
            'swap': cluster.swap[0] or ''}.items()) + f' loglevel=5 {cluster.append}'
        command = machine(cluster.kernel, cluster.accel, cluster.cpus, cluster.memory, arguments)
        command += ['-serial', f'file:{folder}/console.{k}']
        command += ['-chardev', f'socket,id=mon,fd={monitor.fileno()}', '-mon', 'chardev=mon,mode=control']
        command += ['-device', 'virtio-serial-pci', '-chardev', f'socket,id=agent,fd={agent.fileno()}',
                    '-device', 'virtserialport,chardev=agent,name=dsm.agent', '-device', 'virtio-rng-pci']
        for i, (name, port) in enumerate(zip((*cluster.interfaces, 'ctl0'), ports)):
            mac = f'52:54:00:00:{10 + i}:{k + 1:02x}'
            command += ['-netdev', f'dgram,id={name},local.type=fd,local.str={port.fileno()}',
                        '-device', f'virtio-net-pci,netdev={name},id=nic-{name},mac={mac}']
        # Memory that all guests see, which is how tests compare what is done in several of them.
        command += ['-object', f'memory-backend-file,id=common,share=on,size={COMMON},mem-path=/dev/fd/{common}',
                    '-device', 'ivshmem-plain,memdev=common']
        command += share('root', '/', 'readonly=on,multidevs=remap')
        command += share('top', TOP, 'readonly=on,multidevs=remap')
        command += share('share', folder / 'share', 'multidevs=remap')
        with open(folder / f'qemu.{k}', 'w') as errors, tempfile.TemporaryFile(dir=folder) as disk:
            if cluster.swap[0]:
                command += swap_disk(disk, *cluster.swap)
            self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=errors,
                                            stderr=errors, start_new_session=True,
                                            pass_fds=[agent.fileno(), monitor.fileno(), common, disk.fileno(),
                                                      *(port.fileno() for port in ports)])
        agent.close()
        monitor.close()
        self.monitor.settimeout(10)
        self.reader = None

    def command(self, command, **arguments):
        """A command to QEMU's monitor, and its answer."""
        if self.reader is None:
            self.reader = self.monitor.makefile('r')
            self.reader.readline()      # its greeting
            self.ask('qmp_capabilities', {})
        return self.ask(command, arguments)

    def ask(self, name, arguments):
        try:
            self.monitor.sendall(json.dumps({'execute': name, 'arguments': arguments}).encode() + b'\n')
            for line in self.reader:
                answer = json.loads(line)
                if 'error' in answer:
                    raise Failure(f'{self.name}: {name}: {answer["error"]["desc"]}')
                if 'return' in answer:
                    return answer['return']
        except OSError as error:
            raise Failure(f'{self.name}: {name}: {error}') from None
        raise Failure(f'{self.name}: its QEMU is gone')

    def counters(self):
        """Of each processor: the program counter, or None when it is halted."""
        said = self.command('human-monitor-command', **{'command-line': 'info registers -a'})
        return [None if int(halted) else int(pc, 16)
                for pc, halted in re.findall(r'\b[RE]IP=([0-9a-f]+).*?HLT=(\d)', said, re.S)]

    def threads(self):
        """Of each processor: the thread of QEMU that runs it."""
        return [cpu['thread-id'] for cpu in sorted(self.command('query-cpus-fast'), key=lambda cpu: cpu['cpu-index'])]

    def pin(self):
        """Processor k runs on core k of this machine: of those that this process may use, over again if they are fewer."""
        cores = sorted(os.sched_getaffinity(0))
        for k, thread in enumerate(self.threads()):
            os.sched_setaffinity(thread, {cores[k % len(cores)]})

    def cores(self):
        """Of each processor: the cores that it may run on."""
        return [sorted(os.sched_getaffinity(thread)) for thread in self.threads()]

    def link(self, up, interface):
        self.command('set_link', name=f'nic-{interface}', up=up)
        self.links[interface] = up

    def freeze(self):
        self.command('stop')
        self.state = 'frozen'

    def thaw(self):
        self.command('cont')
        self.state = 'up'

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


# ---- KVM or not ----------------------------------------------------------------------------------


def probe(kernel):
    """Boot a trivial guest under KVM: a node /dev/kvm may be there and yet hang each guest."""
    command = machine(kernel, 'kvm', 1, 512, 'cluster.probe quiet') + ['-serial', 'stdio']
    try:
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=PROBE_SECONDS)
        return b'cluster: probe' in done.stdout
    except subprocess.TimeoutExpired:
        return False


def probe_cached(kernel):
    """The answer holds until the machine boots again or has another QEMU."""
    boot = Path('/proc/sys/kernel/random/boot_id').read_text()
    version = output(tool('qemu-system-x86_64', 'qemu-system-x86'), '--version')
    key = hashlib.sha256((boot + version).encode()).hexdigest()
    cache = FILES / 'kvm'
    known = cache.read_text().split() if cache.exists() else []
    if known[:1] == [key]:
        return known[1] == 'works'
    say(f'probing KVM by a trivial guest (once; at most {PROBE_SECONDS} s)')
    start = time.monotonic()
    works = probe(kernel)
    say(f'KVM {"works" if works else "does not work here: guests are emulated (TCG)"} '
        f'({time.monotonic() - start:.1f} s)')
    cache.write_text(f'{key} {"works" if works else "hangs"}\n')
    return works


def choose(accel, kernel):
    if accel == 'kvm' and not os.access('/dev/kvm', os.R_OK | os.W_OK):
        raise Failure('--accel kvm: no access to /dev/kvm')
    if accel != 'auto':
        return accel
    return 'kvm' if os.access('/dev/kvm', os.R_OK | os.W_OK) and probe_cached(kernel) else 'tcg'
