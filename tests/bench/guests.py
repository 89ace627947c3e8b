# SPDX-License-Identifier: BSD-2-Clause
"""What benchmarks between QEMU guests share: the guests, the programs that run in them, medians, tables."""
import json, os, re, statistics, subprocess, tempfile, time

import report
from report import TOP, fail, markdown, table

BUILD = "build/" + os.environ.get("VARIANT", "release")
LIMIT = 240  # seconds for one program
GAP_US = 1000  # before an operation that is timed alone: in emulated guests, what the one before leaves behind takes so long

APPS = [("lu", ["--size", "512"]), ("sor", ["--size", "512", "--iterations", "20"]), ("fft", ["--size", "16"]), ("radix", ["--size", "524288"]),
        ("water", ["--size", "216", "--steps", "10"]), ("barnes", ["--size", "1024"]), ("matmul", ["--size", "256"])]
COUNTERS = {"faults": ("read faults", "write faults", "upgrades"), "messages": ("messages",),
            "bytes": ("data moved",), "invalidations": ("invalidations",)}

background = []  # processes to end, whatever happens
began = time.monotonic()


def say(text):
    report.say("%4.0f s: %s" % (time.monotonic() - began, text))


class Failed(Exception):
    """A program in the guests."""


class Cluster:
    """Guests, for a `with`."""

    def __init__(self, nodes, cpus=1, memory=1024, accel="auto", module=False):
        """module: dsm.ko is loaded in all of them."""
        self.name, self.nodes, self.module = "bench-%d" % os.getpid(), nodes, module
        self.said = ""  # what the last program wrote, to stdout and to stderr
        self.options = ["-n", str(nodes), "--cpus", str(cpus), "--memory", str(memory), "--accel", accel, "--with", str(os.getpid())]

    def command(self, *words):
        return [os.path.join(TOP, "scripts/cluster"), "--name", self.name, *words]

    def __enter__(self):
        say("booting: up " + " ".join(self.options))
        # To a file: what `up` leaves behind keeps its output open.
        with tempfile.TemporaryFile("w+") as said:
            up = subprocess.run(self.command("up", *self.options), cwd=TOP,
                                stdin=subprocess.DEVNULL, stdout=said, stderr=said)
            said.seek(0)
            text = said.read().strip()
        if up.returncode:
            fail("the guests do not start:\n%s\n(scripts/cluster --help; `make setup` installs what they need)" % text)
        self.about = re.search(r"guests?, (.*), up in", text)
        self.about = self.about[1] if self.about else "?"
        try:
            if self.module:
                self.load_module()
            self.mpi(self.nodes, BUILD + "/apps/example")  # files are in the guests' caches from here on
            clock = self.run(0, "cat", "/sys/devices/system/clocksource/clocksource0/current_clocksource").strip()
            if clock not in ("tsc", "kvm-clock"):
                say("the guests' clock is %s, which is slow to read: figures are worse than they need be" % clock)
        except Failed as f:
            self.__exit__()
            fail("the guests do not work: %s" % f)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for p in background:
            end(p)
        background.clear()
        subprocess.run(self.command("down"), cwd=TOP, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def load_module(self):
        built = subprocess.run([os.path.join(TOP, "scripts/build-kmod")], cwd=TOP, capture_output=True, text=True)
        if built.returncode:
            raise Failed("dsm.ko cannot be built: " + built.stderr[-1500:])
        for node in range(self.nodes):
            self.run(node, "sh", "-c", "modprobe -a ib_core && insmod " + built.stdout.split()[-1])

    def start(self, words, env=None):
        p = subprocess.Popen(words, cwd=TOP, env={**os.environ, **(env or {})}, text=True, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        background.append(p)
        return p

    def finish(self, p, limit=LIMIT):
        try:
            out, err = p.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            end(p)
            raise Failed("%s: not done after %d s" % (" ".join(p.args[4:]), limit)) from None
        finally:
            if p in background:
                background.remove(p)
        if p.returncode:
            raise Failed("%s: status %d\n%s" % (" ".join(p.args[4:]), p.returncode, (err + out)[-1500:]))
        self.said = out + err
        return out

    def begin(self, node, *words):
        """A command in one guest, in the background."""
        return self.start(self.command("run", "--node", str(node), "--", *words))

    def run(self, node, *words):
        return self.finish(self.begin(node, *words))

    def mpi(self, n, *words, env=None, limit=LIMIT):
        return self.finish(self.start(self.command("mpirun", "--", "-n", str(n), *words), env), limit)

    def listening(self, server, port, node=0):
        """Wait for a program that was begun."""
        waiting = self.begin(node, "sh", "-c", "until grep -qi ':%04X 0' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done" % port)
        while waiting.poll() is None:
            time.sleep(0.1)
            if server.poll() is not None:
                end(waiting)
                background.remove(waiting)
                raise Failed("%s: %s" % (" ".join(server.args[4:]), "".join(server.communicate())[-1500:]))
        self.finish(waiting)


def end(p):
    """A command in a guest: a signal to ours is a signal to it."""
    if p.poll() is None:
        p.terminate()
        try:
            p.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            p.kill()
            p.communicate()


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def middle(values):
    return round(statistics.median(values), 3)


def gather(into, key, values):
    for name, value in values.items():
        into.setdefault(key, {}).setdefault(name, []).append(value)


def cell(v, form="%.0f"):
    return report.cell(v, form)


def us(v):
    """Three digits are more than the guests are good for."""
    return cell(v, "%.2f" if v is not None and v < 10 else "%.0f")


# ---- programs ---------------------------------------------------------------------------------------


def single(cluster, env, samples, floor=None, *options):
    """Operations timed one by one: {(row, part): us}."""
    rows = json_lines(cluster.mpi(2, BUILD + "/bench/noise", "--samples", str(samples), "--gap", str(GAP_US), *(["--floor", floor] if floor else []), *options, env=env))
    return {(r["row"], part): r[part + "_us"] for r in rows if "row" in r for part in ("p10", "median", "p99")}


def micro(cluster, env, *args):
    rows = json_lines(cluster.mpi(2, BUILD + "/bench/micro", *args, env=env))
    return {(r["row"], r["unit"]): r["value"] for r in rows}


def app_run(cluster, n, app, args, env):
    """Seconds and counters of one run."""
    out = cluster.mpi(n, BUILD + "/apps/" + app, *args, "--no-verify", "--quiet", "--table", env=env)
    found = {line[:24].strip(): float(line[24:].split()[0]) for line in out.splitlines()
             if len(line) > 24 and re.match(r"\s*[0-9.]+( |$)", line[24:])}
    seconds = float(re.search(r"\btime_s=([0-9.]+)", out)[1])
    values = {name: sum(found.get(c, 0) for c in counters) * (1 << 20 if name == "bytes" else 1) for name, counters in COUNTERS.items()}
    return {"seconds": seconds, **values}
