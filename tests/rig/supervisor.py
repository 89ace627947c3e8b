# SPDX-License-Identifier: BSD-2-Clause
"""The process behind a cluster: it starts switch and guests, and passes what clients ask on to them.

One thread runs one loop over sockets: an agent for each guest, and clients. Clients connect to an abstract socket,
which has no file and ends with the process. A client sends one line of JSON, and gets one line of JSON. Only for `run`
it may send more (signals), and gets frames. Guests and switch end with this process. This process ends on `down`, or
with the process named by --with; for `exec`, and until all guests are up, also with the process that started it.
"""
import fcntl
import hashlib
import json
import os
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback

import kernel
import qemu
import splats
from common import BUILD, TOP, Failure, program, say, tool

FRAME = struct.Struct('<IHBB')          # as in agent.c
RUN, SIGNAL, HELLO, EXIT = b'RSHX'
LOST = 255                              # exit status of a job whose guest has died


def folder_of(name):
    return BUILD / name


def address(name):
    """Abstract, hence short whatever the path of the checkout; nobody else's users get in, see Supervisor.accept."""
    return '\0libdsm-cluster-' + hashlib.sha256(f'{TOP}:{name}'.encode()).hexdigest()[:24]


def pack(kind, job, data):
    return FRAME.pack(len(data), job, kind, 0) + data


def run_payload(request):
    env = [f'{key}={value}' for key, value in request.get('env', {}).items()]
    words = [request['cwd'], str(request.get('memlock') or ''), str(len(env)), *env, *request['argv']]
    return b''.join(os.fsencode(word) + b'\0' for word in words)


class Buffered:
    """A socket that is written as fast as the other side takes it."""

    def __init__(self, loop, sock, reader):
        self.loop, self.sock, self.reader, self.inbox, self.outbox = loop, sock, reader, bytearray(), bytearray()
        sock.setblocking(False)
        loop.register(sock, selectors.EVENT_READ, self)

    def send(self, data):
        self.outbox += data
        self.flush()

    def flush(self):
        try:
            while self.outbox:
                del self.outbox[:self.sock.send(self.outbox)]
        except BlockingIOError:
            pass
        except OSError:
            self.outbox.clear()
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.outbox else 0)
        if self.sock in self.loop.get_map():
            self.loop.modify(self.sock, events, self)

    def ready(self, events):
        if events & selectors.EVENT_WRITE:
            self.flush()
        if events & selectors.EVENT_READ:
            try:
                data = self.sock.recv(1 << 18)
            except BlockingIOError:
                return
            except OSError:
                data = b''
            self.inbox += data
            self.reader(self, not data)

    def close(self):
        if self.sock in self.loop.get_map():
            self.loop.unregister(self.sock)
        self.sock.close()

    def frames(self):
        """Complete frames, with the bytes they came as."""
        while len(self.inbox) >= FRAME.size:
            length, job, kind, _ = FRAME.unpack_from(self.inbox)
            if len(self.inbox) < FRAME.size + length:
                return
            data = bytes(self.inbox[FRAME.size:FRAME.size + length])
            del self.inbox[:FRAME.size + length]
            yield kind, job, data


class Supervisor:
    def __init__(self, options):
        self.name, self.nodes, self.cpus, self.memory, self.append, self.nics, self.irq_cpus, self.swap = (
            options[key] for key in ('name', 'nodes', 'cpus', 'memory', 'append', 'nics', 'irq_cpus', 'swap'))
        self.interfaces = [f'eth{i}' for i in range(self.nics)]     # that carry RDMA
        self.folder = folder_of(self.name)
        self.options, self.loop = options, selectors.DefaultSelector()
        self.guests, self.agents, self.jobs, self.next_job = [], {}, {}, 0
        self.started, self.switch, self.marks = time.monotonic(), None, {}
        self.ending = False

    # -- start

    def prepare(self):
        if set(str(TOP)) & set(' \t,"'):
            raise Failure(f'{TOP}: neither QEMU nor a kernel can be told a path with spaces, commas or quotes')
        self.folder.mkdir(parents=True, exist_ok=True)
        self.lock = open(self.folder / 'lock', 'w')
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Failure(f'there is a cluster {self.name} already: take it down, or give this one another --name')
        for old in self.folder.iterdir():
            if old.is_dir():
                shutil.rmtree(old)
            elif old.name != 'lock':
                old.unlink()
        (self.folder / 'share').mkdir()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(address(self.name))
        self.listener.listen(64)

    def start(self):
        # A compiler or an archive may be at work here: before any guest waits for it.
        self.kernel = kernel.get(self.options['kernel'])
        switch = program('switch')
        self.accel = qemu.choose(self.options['accel'], self.kernel)
        networks = [[socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(self.nodes)]
                    for _ in range(self.nics + 1)]
        for pair in (pair for network in networks for pair in network):
            for end in pair:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        ports = [[ours for ours, _ in network] for network in networks]
        with open(self.folder / 'switch', 'wb') as errors:  # what `up` writes to is not kept open
            self.switch = subprocess.Popen(
                [tool('setpriv', 'util-linux'), '--pdeathsig', 'KILL', str(switch),
                 '/'.join(','.join(str(port.fileno()) for port in network) for network in ports)],
                pass_fds=[port.fileno() for network in ports for port in network], stdin=subprocess.DEVNULL,
                stdout=errors, stderr=errors, start_new_session=True)
        common = os.memfd_create('libdsm-cluster')
        os.ftruncate(common, qemu.COMMON)
        for k in range(self.nodes):
            guest = qemu.Guest(k)
            self.guests.append(guest)
            self.marks[k] = 0
            guest.start(self, [network[k][1] for network in networks], common)
            self.agents[k] = Buffered(self.loop, guest.agent, lambda b, ended, g=guest: self.from_agent(g, b, ended))
        for pair in (pair for network in networks for pair in network):
            for end in pair:
                end.close()
        os.close(common)
        self.wait_for_guests()
        for guest in self.guests if self.options['pin'] else []:
            guest.pin()
        self.loop.register(self.listener, selectors.EVENT_READ, None)

    def wait_for_guests(self):
        end = time.monotonic() + self.options['deadline']
        while any(guest.state != 'up' for guest in self.guests):
            if time.monotonic() > end or any(guest.state == 'dead' for guest in self.guests):
                bad = [guest for guest in self.guests if guest.state == 'dead'] or \
                      [guest for guest in self.guests if guest.state != 'up']
                why = [f'{g.name} {g.why or "was not up in " + str(self.options["deadline"]) + " s"}' for g in bad]
                raise Failure('; '.join(why) + self.last_words(bad[0]))
            self.turn(1)
        self.took = time.monotonic() - self.started

    def last_words(self, guest):
        made = ''
        for name in ('qemu', 'console'):
            path = self.folder / f'{name}.{guest.number}'
            if path.exists():
                lines = path.read_text(errors='replace').splitlines()[-15:]
                made += ''.join(f'\n  {name}.{guest.number} | {line}' for line in lines)
        return made

    def watch_companion(self):
        """End with the process that the user named."""
        if self.options['companion']:
            try:
                self.companion = os.pidfd_open(self.options['companion'])
            except OSError as error:
                raise Failure(f'--with {self.options["companion"]}: {error.strerror}')
            self.loop.register(self.companion, selectors.EVENT_READ, quit_now)

    # -- guests

    def from_agent(self, guest, buffered, ended):
        for kind, job, data in buffered.frames():
            if kind == HELLO:
                guest.state = 'up'
            else:
                self.to_client(guest, job, kind, data)
        if ended:
            buffered.close()
            guest.process.wait()
            guest.state, guest.why = 'dead', guest.why or 'died'
            for number, job in list(self.jobs):
                if number == guest.number:
                    self.to_client(guest, job, ord('E'), f'cluster: {guest.name} {guest.why}\n'.encode())
                    self.to_client(guest, job, EXIT, bytes([LOST]))

    def to_client(self, guest, job, kind, data):
        client = self.jobs.get((guest.number, job))
        if client:
            client.send(pack(kind, guest.number, data))
        if kind == EXIT:
            self.jobs.pop((guest.number, job), None)

    def signal_jobs(self, client, sig):
        for (number, job), owner in self.jobs.items():
            if owner is client:
                self.agents[number].send(pack(SIGNAL, job, bytes([sig])))

    # -- clients

    def accept(self):
        sock, _ = self.listener.accept()
        _, uid, _ = struct.unpack('3i', sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if uid not in (os.getuid(), 0):
            sock.close()
            return
        Buffered(self.loop, sock, self.from_client)

    def from_client(self, client, ended):
        while b'\n' in client.inbox:
            line, _, rest = bytes(client.inbox).partition(b'\n')
            client.inbox[:] = rest
            request = json.loads(line)
            try:
                answer = getattr(self, 'do_' + request['do'])(client, request)
            except Failure as failure:
                answer = {'error': str(failure)}
            except Exception:       # one bad request is no reason to end a cluster
                answer = {'error': traceback.format_exc()}
            if answer is not None:
                client.send(json.dumps(answer).encode() + b'\n')
        if ended:
            # Who asked is gone: so are its jobs (the agent kills those that TERM does not end).
            self.signal_jobs(client, signal.SIGTERM)
            for key, owner in list(self.jobs.items()):
                if owner is client:
                    self.jobs[key] = None
            client.close()

    def guest(self, number, *states):
        if not 0 <= number < self.nodes:
            raise Failure(f'there is no node {number}: they are 0 to {self.nodes - 1}')
        if states and self.guests[number].state not in states:
            raise Failure(f'node{number} is {self.guests[number].state}')
        return self.guests[number]

    def do_run(self, client, request):
        nodes = request['nodes']
        if nodes is None:
            nodes = [guest.number for guest in self.guests if guest.state == 'up']
        for number in nodes:
            self.guest(number, 'up')
        if not nodes:
            raise Failure('no guest is up')
        client.send(json.dumps({'nodes': nodes}).encode() + b'\n')
        for number in nodes:
            self.next_job = self.next_job % 65535 + 1
            self.jobs[number, self.next_job] = client
            self.agents[number].send(pack(RUN, self.next_job, run_payload(request)))

    def do_signal(self, client, request):
        self.signal_jobs(client, request['signal'])

    def do_status(self, client, request):
        return {'name': self.name, 'nodes': self.nodes, 'accel': self.accel, 'kernel': self.kernel.version,
                'cpus': self.cpus, 'memory': self.memory, 'pinned': self.options['pin'], 'nics': self.nics,
                'irq_cpus': self.irq_cpus, 'swap': self.swap, 'pid': os.getpid(), 'boot': self.took,
                'up': time.monotonic() - self.started, 'folder': str(self.folder), 'share': str(self.folder / 'share'),
                'guests': [{'name': g.name, 'state': g.state, 'why': g.why, 'pid': g.process.pid,
                            'links': g.links,
                            'cores': g.cores() if self.options['pin'] and g.state != 'dead' else []} for g in self.guests]}

    def do_news(self, client, request):
        """Bad news on the consoles since the last time somebody asked."""
        found = {}
        for guest in self.guests:
            with open(self.folder / f'console.{guest.number}', 'rb') as file:
                file.seek(self.marks[guest.number])
                data = file.read()
            self.marks[guest.number] += len(data)
            lines = splats.excerpts(data.decode(errors='replace'))
            if lines:
                found[guest.name] = lines
        return {'news': found}

    def do_link(self, client, request):
        guest, only = self.guest(request['node'], 'up'), request['interface']
        if only and only not in self.interfaces:
            raise Failure(f'there is no {only}: RDMA is carried by {", ".join(self.interfaces)}')
        for interface in [only] if only else self.interfaces:
            guest.link(request['up'], interface)
        return {}

    def do_counters(self, client, request):
        return {'counters': self.guest(request['node'], 'up').counters()}

    def do_freeze(self, client, request):
        self.guest(request['node'], 'up').freeze()
        return {}

    def do_thaw(self, client, request):
        self.guest(request['node'], 'frozen').thaw()
        return {}

    def do_kill(self, client, request):
        guest = self.guest(request['node'], 'up', 'frozen')
        guest.why = 'was killed'
        guest.kill()
        return {}

    def do_down(self, client, request):
        self.ending = True
        self.stop()
        return {}

    # -- the loop

    def turn(self, seconds):
        for key, events in self.loop.select(seconds):
            if key.data is None:
                self.accept()
            elif callable(key.data):
                key.data()
            elif key.fileobj in self.loop.get_map():
                key.data.ready(events)

    def stop(self):
        for guest in self.guests:
            guest.kill()
        if self.switch:
            self.switch.kill()
            self.switch.wait()

    def finish(self):
        self.stop()
        shutil.rmtree(self.folder / 'share', ignore_errors=True)
        if not self.options['keep']:
            shutil.rmtree(self.folder, ignore_errors=True)


def quit_now(sig=None, _=None):
    raise SystemExit(f'ended by signal {sig}' if sig else 'ended with the process it was to end with')


def main():
    """Options come as JSON in the first argument; what happened goes to standard output, as JSON. Standard input ends
    with the process that wants the cluster: until it is up, or, if it is bound, for as long as it lives."""
    supervisor = Supervisor(json.loads(sys.argv[1]))
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sig, quit_now)
    try:
        supervisor.prepare()
    except Failure as failure:
        print(json.dumps({'error': str(failure)}), flush=True)
        return
    try:
        supervisor.loop.register(0, selectors.EVENT_READ, quit_now)
        supervisor.watch_companion()
        supervisor.start()
        print(json.dumps(supervisor.do_status(None, None)), flush=True)
        if not supervisor.options['bound']:
            supervisor.loop.unregister(0)
            quiet = os.open(supervisor.folder / 'supervisor', os.O_WRONLY | os.O_CREAT, 0o644)
            for fd in (0, 1, 2):
                os.dup2(quiet, fd)
        while not supervisor.ending:
            supervisor.turn(None)
        supervisor.turn(0)
    except Failure as failure:
        print(json.dumps({'error': str(failure)}), flush=True)
    except SystemExit as end:
        say(end)        # to the file of the supervisor, once the guests are up
    except Exception:
        print(json.dumps({'error': traceback.format_exc()}), flush=True)
    finally:
        supervisor.finish()


if __name__ == '__main__':
    main()
