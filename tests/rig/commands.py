# SPDX-License-Identifier: BSD-2-Clause
"""The commands of scripts/cluster."""
import argparse
import bisect
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import realhosts
from client import MPI_IN_GUESTS, MPI_SETTINGS, Client, mpirun_command, start
from common import BUILD, Failure, bpf_object, program, say

MOST_NODES, MOST_NICS = 8, 4     # the switch has ports for so many


def usage(script):
    """The first comment block after the licence line, without the marks."""
    with open(script) as file:
        for line in list(file)[2:]:
            if not line.startswith('#'):
                return
            print(line[2:].rstrip() if line[1:2] == ' ' else line[1:].rstrip())


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Failure(f'{message} (--help)', 2)


def parse(words):
    """Options, and the words after --."""
    words, command = (words[:words.index('--')], words[words.index('--') + 1:]) if '--' in words else (words, [])
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument('what', choices=[name[3:] for name in globals() if name.startswith('do_')])
    parser.add_argument('words', nargs='*')
    parser.add_argument('--name')
    parser.add_argument('-n', '--nodes', type=int, default=2)
    parser.add_argument('--cpus', type=int, default=1)
    parser.add_argument('--memory', type=int, default=1024)
    parser.add_argument('--swap', default='')
    parser.add_argument('--kernel', default='6.1')
    parser.add_argument('--append', default='')
    parser.add_argument('--siw', action='store_true')
    parser.add_argument('--pin', action='store_true')
    parser.add_argument('--nics', type=int, default=1)
    parser.add_argument('--irq-cpus', dest='irq_cpus', default='')
    parser.add_argument('--json', action='store_true')
    parser.add_argument('--accel', choices=['auto', 'tcg', 'kvm', 'icount'], default='auto')
    parser.add_argument('--deadline', type=int, default=180)
    parser.add_argument('--memlock', type=int)
    parser.add_argument('--with', dest='companion', type=int)
    parser.add_argument('--node', type=int, action='append')
    parser.add_argument('--hosts')
    parser.add_argument('--all', action='store_true')
    options = parser.parse_intermixed_args(words)
    options.command = command
    if not 1 <= options.nodes <= MOST_NODES:
        raise Failure(f'a cluster has 1 to {MOST_NODES} guests, not {options.nodes}', 2)
    if options.name and not re.fullmatch(r'[A-Za-z0-9_.-]{1,40}', options.name):
        raise Failure('a name has letters, digits, "_", "." and "-"', 2)
    if options.pin and options.accel == 'icount' and options.cpus > 1:
        raise Failure('--pin: with icount, one thread runs all processors of a guest', 2)
    if not 1 <= options.nics <= MOST_NICS:
        raise Failure(f'a guest has 1 to {MOST_NICS} devices for RDMA, not {options.nics}', 2)
    options.irq_cpus = irq_cpus(options)
    options.swap = swap(options)
    if options.what in ('run', 'mpirun', 'exec') and not command:
        raise Failure(f'{options.what} takes a command after --', 2)
    return options


def irq_cpus(options):
    """The processor of each NIC's interrupts; none: as the kernel places them."""
    if not options.irq_cpus:
        return []
    if not re.fullmatch(r'[0-9]{1,4}(,[0-9]{1,4})*', options.irq_cpus):
        raise Failure(f'--irq-cpus: a processor for each NIC, as 0,1, not {options.irq_cpus}', 2)
    found = [int(word) for word in options.irq_cpus.split(',')]
    if len(found) != options.nics:
        raise Failure(f'--irq-cpus names {len(found)}, and a guest has {options.nics} NIC(s): --nics', 2)
    if max(found) >= options.cpus:
        raise Failure(f'--irq-cpus: a guest has no processor {max(found)}: --cpus', 2)
    return found


def swap(options):
    """MiB of each guest's disk for swap, and its reads and writes per second; [0, 0]: no disk, and 0: no limit."""
    if not options.swap:
        return [0, 0]
    if not re.fullmatch(r'[1-9][0-9]{0,5}(:[1-9][0-9]{0,5})?', options.swap):
        raise Failure(f'--swap: MiB, or MiB and operations per second, as 512:200, not {options.swap}', 2)
    return [int(word) for word in (options.swap.split(':') + ['0'])[:2]]


def supervisor_options(options, bound):
    return {'name': options.name, 'nodes': options.nodes, 'cpus': options.cpus, 'memory': options.memory,
            'append': options.append + (' cluster.siw=1' if options.siw else ''), 'kernel': options.kernel,
            'accel': options.accel, 'pin': options.pin, 'nics': options.nics,
            'irq_cpus': options.irq_cpus, 'swap': options.swap, 'deadline': options.deadline, 'bound': bound, 'keep': not bound,
            'companion': options.companion}


def describe(s):
    guests = f'{s["nodes"]} guest{"s" if s["nodes"] > 1 else ""}'
    nics = f', {s["nics"]} NICs' if s['nics'] > 1 else ''
    size, rate = s['swap']
    swapped = f', swap of {size} MiB{f" at {rate} per second" if rate else ""}' if size else ''
    return (f'{s["name"]}: {guests}, {s["accel"]}, Linux {s["kernel"]}{", pinned" if s["pinned"] else ""}{nics}{swapped}, '
            f'up in {s["boot"]:.1f} s')


def verdict(client, statuses):
    """The exit status of a command that ran in guests."""
    status = 0
    for node, one in sorted(statuses.items()):
        if one and len(statuses) > 1:
            say(f'node{node}: exit status {one}')
        status = status or one
    return int(client.check_news()) or status


def look_for_leaks(client):
    """A kernel with kmemleak looks when it is asked; what it finds is in its log."""
    if any(guest['state'] == 'up' for guest in client.status()['guests']):
        statuses = client.run(['test', '-e', '/sys/kernel/debug/kmemleak'], limit=60)
        found = [node for node, status in statuses.items() if not status]
        if found:
            client.run(['sh', '-c', 'echo scan >/sys/kernel/debug/kmemleak'], nodes=found)


# ---- life ----------------------------------------------------------------------------------------


def do_up(options):
    said, process = start(supervisor_options(options, False))
    # It goes on by itself; Python would warn of a child that is not waited for.
    process.returncode = 0
    say(describe(said))
    return 0


def do_exec(options):
    options.name = options.name if options.given_name else f'exec-{os.getpid()}'
    said, process = start(supervisor_options(options, True))
    try:
        say(describe(said))
        client = Client(options.name)
        options.node = options.node or [0]
        status = (run_mpirun if options.command[0] == 'mpirun' else run_command)(
            client, options, options.command[options.command[0] == 'mpirun':])
        look_for_leaks(client)
        status = int(client.check_news()) or status
        client.request('down')
    finally:
        process.stdin.close()
        process.wait()
    return status


def do_down(options):
    names = clusters() if options.all else [options.name]
    status = 0
    for name in names:
        try:
            client = Client(name)
        except Failure:
            if options.all:
                continue
            raise
        try:
            look_for_leaks(client)
        except Failure as failure:      # a guest that hangs is no reason to keep it
            say(f'{name}: {failure}')
            client, status = Client(name), 1
        status |= client.check_news()
        client.request('down')
        client.input.read()         # its end: everything of it is gone
        say(f'{name}: down')
    return status


def clusters():
    """Names of clusters of this checkout that are or were."""
    return sorted(folder.name for folder in BUILD.glob('*') if (folder / 'lock').exists())


def do_status(options):
    names = [options.name] if options.given_name else clusters()
    found = 0
    for name in names:
        try:
            s = Client(name).status()
        except Failure:
            continue
        found += 1
        if options.json:
            print(json.dumps(s))
            continue
        print(describe(s) + f'; {s["cpus"]} processor(s) and {s["memory"]} MiB each; {s["up"]:.0f} s old; {s["folder"]}')
        for k, guest in enumerate(s['guests']):
            state = guest['why'] if guest['state'] == 'dead' and guest['why'] else guest['state']
            pinned = ', '.join(f'{cpu} on core {"/".join(map(str, cores))}' for cpu, cores in enumerate(guest['cores']))
            links = '  '.join(f'10.10.{i}.{k + 1}  link {"up" if up else "down":4}' for i, up in enumerate(guest['links'].values()))
            irqs = ', '.join(f'eth{i} on {cpu}' for i, cpu in enumerate(s['irq_cpus']))
            print(f'  {guest["name"]}  {state:8}  {links}  process {guest["pid"]}' +
                  (f'  processors {pinned}' if pinned else '') + (f'  interrupts of {irqs}' if irqs else ''))
    if not found:
        print(f'no cluster {options.name} is up' if options.given_name else 'no cluster is up')
    return 0 if found else 1


# ---- commands in guests --------------------------------------------------------------------------


def run_command(client, options, words):
    nodes = sorted(set(options.node)) if options.node else None
    return verdict(client, client.run(words, nodes, prefix=nodes is None or len(nodes) > 1, memlock=options.memlock))


def run_mpirun(client, options, words):
    names = [guest['name'] for guest in client.status()['guests'] if guest['state'] == 'up']
    if names[:1] != ['node0']:
        raise Failure('mpirun runs in node0, which is not up')
    return verdict(client, client.run(mpirun_command(names, words, MPI_IN_GUESTS), [0], prefix=False, env=MPI_SETTINGS,
                                      memlock=options.memlock))


def do_run(options):
    return run_command(Client(options.name), options, options.command)


def do_mpirun(options):
    return run_mpirun(Client(options.name), options, options.command)


# ---- logs ----------------------------------------------------------------------------------------


def do_console(options):
    path = BUILD / options.name / f'console.{number(options)}'
    if not path.exists():
        raise Failure(f'there is no {path}')
    try:
        return subprocess.run(['tail', '-n', '+1', '-f', path]).returncode
    except KeyboardInterrupt:
        return 0


def do_logs(options):
    folder = BUILD / options.name
    for path in sorted(folder.glob('console.*')):
        print(f'{path}: {len(path.read_text(errors="replace").splitlines())} lines')
    return int(Client(options.name).check_news())


# ---- faults --------------------------------------------------------------------------------------


def number(options):
    if not options.words or not options.words[0].isdigit():
        raise Failure(f'{options.what} takes the number of a node', 2)
    return int(options.words[0])


def do_net(options):
    """Netem in the guest; nothing but packets that the guest sends is touched."""
    client, words = Client(options.name), options.words[1:]
    nodes = None if options.words[:1] == ['all'] else [number(options)]
    if not words:
        do = 'tc qdisc show dev $d'
    elif words == ['clear']:
        do = 'tc qdisc del dev $d root 2>/dev/null || true'
    else:
        # The queue is long enough for what is under way with a delay of seconds.
        do = 'tc qdisc replace dev $d root netem limit 100000 "$@"'
    statuses = client.run(['sh', '-c', f'cd /sys/class/net; for d in eth*; do {do} || exit; done', 'net', *words], nodes,
                          prefix=nodes is None)
    return max(statuses.values())


def do_link(options):
    if options.words[1:2] not in (['up'], ['down']) or len(options.words) > 3:
        raise Failure('link K up, or link K down; link K down eth1', 2)
    Client(options.name).request('link', node=number(options), up=options.words[1] == 'up',
                                 interface=(options.words + [None])[2])
    return 0


def do_vectors(options):
    """A program in the guests does it: tests/rig/vectors.c."""
    if options.words not in ([], ['on'], ['off']):
        raise Failure('vectors on, vectors off, or vectors', 2)
    client, words = Client(options.name), [program('vectors', '-lbpf', '-lelf', '-lz'), *options.words]
    if options.words == ['on']:
        words.append(bpf_object('vectors'))
    return verdict(client, client.run([str(word) for word in words]))


def do_freeze(options):
    Client(options.name).request(options.what, node=number(options))
    return 0


do_thaw = do_kill = do_freeze


# ---- where time goes -----------------------------------------------------------------------------


SAMPLE_EVERY = 0.003    # seconds
KERNEL = 1 << 63
SHOWN = 40


def do_profile(options):
    """Samples from outside: they see interrupt handlers and what runs with interrupts off as anything else."""
    client, node = Client(options.name), number(options)
    if not re.fullmatch(r'[0-9]{1,5}', ''.join(options.words[1:]) or '5') or len(options.words) > 2:
        raise Failure('profile K [SECONDS]', 2)
    seconds = int((options.words + ['5'])[1])
    with tempfile.TemporaryFile() as out:
        if client.run(['cat', '/proc/kallsyms'], [node], prefix=False, out=out)[node]:
            raise Failure(f'node{node} does not tell its symbols')
        out.seek(0)
        symbols = sorted((int(words[0], 16), ' '.join(words[2:])) for words in map(str.split, out.read().decode().splitlines())
                         if words[1] in 'tTwW')
    starts, found, end = [start for start, _ in symbols], collections.Counter(), time.monotonic() + seconds
    while time.monotonic() < end:
        for pc in client.request('counters', node=node)['counters']:
            found['(idle)' if pc is None else symbols[bisect.bisect(starts, pc) - 1][1] if pc >= KERNEL else '(processes)'] += 1
        time.sleep(SAMPLE_EVERY)
    for name, n in found.most_common(SHOWN):
        print(f'{100 * n / found.total():5.1f} %  {name}')
    print(f'{found.total()} samples')
    return 0


# ---- main ----------------------------------------------------------------------------------------


def main(script, words):
    if not words or words[0] in ('-h', '--help') or (set(words[:(words + ['--']).index('--')]) & {'-h', '--help'}):
        usage(script)
        return 0 if words else 2
    try:
        options = parse(words)
        options.given_name, options.name = options.name, options.name or 'default'
        if options.hosts:
            return realhosts.main(options)
        return globals()['do_' + options.what](options)
    except Failure as failure:
        say(failure)
        return failure.status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 1
