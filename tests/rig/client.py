# SPDX-License-Identifier: BSD-2-Clause
"""What scripts/cluster asks of the supervisor of a cluster."""
import json
import os
import signal
import socket
import subprocess
import sys

from common import BUILD, HERE, Failure, say
from supervisor import EXIT, FRAME, address

PASSED = ('DSM_', 'UCX_', 'OMPI_', 'PMIX_')     # settings of the caller that commands in guests get


def start(options):
    """Start a supervisor and wait for its guests: what it says of them, and the process. A bound one ends with us."""
    # -B: no compiled files beside the sources.
    process = subprocess.Popen([sys.executable, '-B', HERE / 'supervisor.py', json.dumps(options)], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    try:
        line = process.stdout.readline()
    except KeyboardInterrupt:
        process.stdin.close()
        process.wait()
        raise
    said = json.loads(line or '{"error": "the supervisor died"}')
    if 'error' in said:
        process.wait()
        raise Failure(said['error'])
    return said, process


class Client:
    """A connection to the cluster of a name."""

    def __init__(self, name):
        self.name, self.sock = name, socket.socket(socket.AF_UNIX)
        try:
            self.sock.connect(address(name))
        except ConnectionRefusedError:
            raise Failure(f'no cluster {name} is up (scripts/cluster up)') from None
        self.input = self.sock.makefile('rb')

    def request(self, do, **more):
        try:
            self.sock.sendall(json.dumps({'do': do, **more}).encode() + b'\n')
            line = self.input.readline()
        except OSError:
            line = b''
        if not line:
            raise self.lost()
        answer = json.loads(line)
        if 'error' in answer:
            raise Failure(answer['error'])
        return answer

    def lost(self):
        said = BUILD / self.name / 'supervisor'
        why = said.read_text().strip() if said.exists() else ''
        return Failure('the supervisor of the cluster is gone' + (f': {why}' if why else ''))

    def status(self):
        return self.request('status')

    def run(self, argv, nodes=None, prefix=True, env=None, memlock=None, out=None, limit=None):
        """Run a command in guests; the exit status of each node. Signals to us are signals to it. If no guest says anything for
        limit seconds, this fails, and the connection is of no use any more."""
        request = {'argv': argv, 'nodes': nodes, 'cwd': os.getcwd(), 'memlock': memlock,
                   'env': {**{key: value for key, value in os.environ.items() if key.startswith(PASSED)}, **(env or {})}}
        nodes = self.request('run', **request)['nodes']
        printer = Printer(prefix, out)
        statuses = {}
        self.sock.settimeout(limit)
        with Signals(self):
            while len(statuses) < len(nodes):
                try:
                    head = self.input.read(FRAME.size)
                    if len(head) < FRAME.size:
                        raise self.lost()
                    length, node, kind, _ = FRAME.unpack(head)
                    data = self.input.read(length)
                except TimeoutError:    # input cannot be read any more
                    silent = ', '.join(f'node{node}' for node in nodes if node not in statuses)
                    raise Failure(f'{silent} said nothing for {limit} s') from None
                if kind == EXIT:
                    printer.end(node)
                    statuses[node] = data[0]
                else:
                    printer.add(node, kind, data)
        self.sock.settimeout(None)
        return statuses

    def check_news(self):
        """Show what is bad in the guests' kernel logs; whether there was any."""
        news = self.request('news')['news']
        for name, lines in news.items():
            say(f'{name}: bad news in its kernel log ({BUILD}/{self.name}/console.{name[4:]}):')
            for line in lines:
                print(f'  {name} | {line}', file=sys.stderr)
        return bool(news)


class Signals:
    """While a command runs in guests, SIGINT, SIGTERM and SIGHUP go to it; the second of them kills it."""

    HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, client):
        self.client, self.count = client, 0

    def pass_on(self, sig, _):
        self.count += 1
        sig = signal.SIGKILL if self.count > 1 else sig
        self.client.sock.sendall(json.dumps({'do': 'signal', 'signal': int(sig)}).encode() + b'\n')

    def __enter__(self):
        self.before = {sig: signal.signal(sig, self.pass_on) for sig in self.HANDLED}

    def __exit__(self, *_):
        for sig, handler in self.before.items():
            signal.signal(sig, handler)


class Printer:
    """The output of guests: as it comes, or by lines, each after the name of its guest."""

    def __init__(self, prefix, out=None):
        self.prefix, self.rest, self.out = prefix, {}, out or sys.stdout.buffer

    def stream(self, kind):
        return sys.stderr.buffer if kind == ord('E') else self.out

    def add(self, node, kind, data):
        stream = self.stream(kind)
        if self.prefix:
            *lines, rest = (self.rest.get((node, kind), b'') + data).split(b'\n')
            self.rest[node, kind] = rest
            data = b''.join(b'node%d: %s\n' % (node, line) for line in lines)
        stream.write(data)
        stream.flush()

    def end(self, node):
        for kind in (ord('O'), ord('E')):
            if self.rest.get((node, kind)):
                self.add(node, kind, b'\n')


def mpirun_command(names, words, more=()):
    """mpirun over hosts with as many slots as anybody may want, ranks dealt out in turn."""
    settings = [word for key in sorted(os.environ) if key.startswith(('DSM_', 'UCX_')) for word in ('-x', key)]
    return ['mpirun', '--host', ','.join(f'{name}:256' for name in names), '--map-by', 'node', *more, *settings, *words]


MPI_SETTINGS = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1',
                'OMPI_MCA_rmaps_base_oversubscribe': '1', 'OMPI_MCA_hwloc_base_binding_policy': 'none'}
# Daemons are started through the agents, and talk by the network that has no faults.
MPI_IN_GUESTS = ['--mca', 'plm_rsh_agent', '/run/agent rsh', '--mca', 'plm_rsh_no_tree_spawn', '1',
                 '--mca', 'oob_tcp_if_include', 'ctl0',
                 # A guest that is killed does not say so: it is asked after 10 s of silence, every
                 # 5 s, 3 times.
                 '--mca', 'oob_tcp_keepalive_time', '10', '--mca', 'oob_tcp_keepalive_intvl', '5',
                 '--mca', 'oob_tcp_keepalive_probes', '3']
