# SPDX-License-Identifier: BSD-2-Clause
"""run, mpirun and exec over real machines, by ssh."""
import os
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path

from client import MPI_SETTINGS, PASSED, Printer, Signals, mpirun_command
from common import Failure, say, tool


def names(text):
    """Hosts from A,B,C or from a file: one on a line, comments by #, what follows the name (slots=4) is left."""
    if Path(text).is_file():
        lines = (line.split('#')[0].split() for line in Path(text).read_text().splitlines())
        found = [line[0] for line in lines if line]
    else:
        found = [name for name in text.split(',') if name]
    if not found:
        raise Failure(f'--hosts {text}: no host')
    return found


def main(options):
    hosts = names(options.hosts)
    if options.what == 'mpirun' or options.what == 'exec' and options.command[0] == 'mpirun':
        return mpirun(hosts, options.command[options.what == 'exec':])
    if options.what == 'exec':
        return run(hosts[:1], options.command, prefix=False)
    if options.what == 'run':
        chosen = [hosts[k] for k in options.node if k < len(hosts)] if options.node else hosts
        return run(chosen, options.command, prefix=not options.node or len(options.node) > 1)
    raise Failure(f'{options.what} is for guests: with --hosts there are run, mpirun and exec', 2)


def ssh():
    return shlex.split(os.environ.get('CLUSTER_SSH', 'ssh -o BatchMode=yes'))


def mpirun(hosts, words):
    """From this machine, in this folder; Open MPI gets the hosts and starts its daemons by ssh."""
    command = mpirun_command(hosts, words, ['--mca', 'plm_rsh_agent', ' '.join(ssh())])
    tool('mpirun', 'openmpi-bin')
    os.execvpe(command[0], command, {**os.environ, **MPI_SETTINGS})     # signals to us are signals to it


# sshd passes no signals on. When the connection ends, so does the standard input of what it has
# started; the command, a process group of its own, then gets SIGTERM, and SIGKILL 10 s later. What
# starts it with another standard input has its own way. A signal to the group of all of this does
# not end the watcher.
BOUND = r"""
[ -p /dev/stdin ] || [ -S /dev/stdin ] || exec "$@"
exec 3<&0
setsid "$@" </dev/null 3<&- &
job=$!
{ trap '' INT TERM HUP; read -r _ <&3; kill -s TERM -- -$job; sleep 10; kill -s KILL -- -$job; } >/dev/null 2>&1 &
watcher=$!
exec 3<&-
wait $job
status=$?
kill -s KILL $watcher
exit $status
"""


def remote_line(words):
    settings = [f'{key}={value}' for key, value in sorted(os.environ.items()) if key.startswith(PASSED)]
    return f'cd {shlex.quote(os.getcwd())} && exec env {shlex.join([*settings, "sh", "-c", BOUND, "sh", *words])}'


def run(hosts, words, prefix):
    """The same command on all hosts at once. The folder is this one, which is to be there too."""
    printers, statuses, processes, stopped = threading.Lock(), {}, [], threading.Event()
    printer = Printer(False)

    def pass_on(host, stream, kind):
        for line in stream:
            with printers:
                printer.add(0, kind, (f'{host}: '.encode() if prefix else b'') + line)

    def one(host):
        process = subprocess.Popen([*ssh(), host, remote_line(words)], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        processes.append(process)
        if stopped.is_set():
            stop()
        readers = [threading.Thread(target=pass_on, args=(host, stream, kind))
                   for stream, kind in ((process.stdout, ord('O')), (process.stderr, ord('E')))]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        status = process.wait()
        statuses[host] = 128 - status if status < 0 else status     # of a signal, as a shell has it

    def stop(*_):
        stopped.set()
        for process in processes:
            process.stdin.close()
            process.terminate()

    for sig in Signals.HANDLED:
        signal.signal(sig, stop)
    threads = [threading.Thread(target=one, args=(host,)) for host in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.stdout.flush()
    for host in hosts:
        if statuses[host] and len(hosts) > 1:
            say(f'{host}: exit status {statuses[host]}')
    return next((statuses[host] for host in hosts if statuses[host]), 0)
