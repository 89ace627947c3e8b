# SPDX-License-Identifier: BSD-2-Clause
"""What benchmarks between machines share: QEMU guests, or with --hosts real machines (hosts.py); the programs that run there, medians,
tables."""
import json, os, re, shutil, statistics, subprocess, tempfile, time

import report, rigs
from report import TOP, fail, markdown, table

BUILD = "build/" + os.environ.get("VARIANT", "release")
LIMIT = 240  # seconds for one program
GAP_US = 1000  # before an operation that is timed alone: in emulated guests, what the one before leaves behind takes so long

# Two and four ranks share no page in the columns of an fft of this size; below 18 chance decides
# who writes a page when.
APPS = [("lu", ["--size", "512"]), ("sor", ["--size", "512", "--iterations", "20"]), ("fft", ["--size", "20"]), ("radix", ["--size", "524288"]),
        ("water", ["--size", "216", "--steps", "10"]), ("barnes", ["--size", "1024"]), ("matmul", ["--size", "256"])]
COUNTERS = {"faults": ("read faults", "write faults", "upgrades"), "messages": ("messages",),
            "bytes": ("data moved",), "invalidations": ("invalidations",)}

# The counter of packets, as drivers name it: rxe; mlx5, mlx4 and InfiniBand in general; bnxt_re and
# efa.
PACKETS_SENT = """cd /sys/class/infiniband/$0/ports/1 && cat hw_counters/sent_pkts 2>/dev/null || cat counters/port_xmit_packets 2>/dev/null ||
cat hw_counters/tx_pkts 2>/dev/null || { echo "$0 has no counter of the packets that it sends" >&2; exit 1; }"""

background = []  # processes to end, whatever happens
began = time.monotonic()


def say(text):
    report.say("%4.0f s: %s" % (time.monotonic() - began, text))


class Failed(Exception):
    """A program on the machines."""


class Cluster:
    """Guests, for a `with`. With --hosts, Cluster() makes a Hosts of hosts.py instead: real machines, with the same methods."""

    kind = "guests"
    booted = "?"  # the last ones: emulation and kernel
    # What guests can do, and real machines cannot: `scripts/cluster vectors`, a limited rate of a
    # link, a machine that is stopped, counting instructions, another RDMA device. See missing().
    can_vectors = can_rate = can_freeze = can_icount = can_link = True
    most = 4  # machines that a job is run on
    software = ipoib = False  # the RDMA device is one in software that ignores vectors; TCP is carried by an InfiniBand port
    instead = None  # the class of the machines that are used instead of guests
    unmeasured = {}  # what the machines cannot do: {what is not measured: why}
    asked = rigs.Asked()  # what the user says of the rig
    ran = []  # the rigs of the machines that were started, as rigs.of_status() has them; see take_rigs()

    def __new__(cls, *_, **__):
        return super().__new__(Cluster.instead or cls)

    def __init__(self, nodes, module=False, **need):
        """module: dsm.ko is loaded in all of them. need: of rigs.Need."""
        self.need_rig(nodes, need)
        self.name, self.nodes, self.module = "bench-%d" % os.getpid(), nodes, module
        self.said = ""  # what the last program wrote, to stdout and to stderr
        # RDMA devices, index of a GID (None: the best), interface
        self.devices, self.gid, self.network = ["rxe%d" % i for i in range(self.rig.nics)], None, "eth0"

    def need_rig(self, nodes, need):
        """Fail with what the part cannot use."""
        try:
            self.rig = rigs.fit(rigs.Need(nodes, **need), self.asked)
        except rigs.Refused as r:
            raise Failed(str(r)) from None
        self.cpus = self.rig.cpus  # processors of each machine

    def command(self, *words):
        return [os.path.join(TOP, "scripts/cluster"), "--name", self.name, *words]

    @property
    def device(self):
        """The RDMA device of single programs; it has this name on all machines."""
        return self.devices[0]

    def address(self, node):
        """By which programs on the others reach this machine."""
        return "node%d" % node

    def need(self, *programs):
        """Fail unless all machines have these. Guests have those of this machine."""
        for name in programs:
            if not shutil.which(name):
                raise Failed("there is no %s: `make setup` installs it" % name)

    def up(self):
        """Start the machines; self.about says what they are."""
        options = [*rigs.options(self.rig), "--with", str(os.getpid())]
        say("booting: up " + " ".join(options))
        # To a file: what `up` leaves behind keeps its output open.
        with tempfile.TemporaryFile("w+") as said:
            up = subprocess.run(self.command("up", *options), cwd=TOP,
                                stdin=subprocess.DEVNULL, stdout=said, stderr=said)
            said.seek(0)
            text = said.read().strip()
        if up.returncode:
            fail("the guests do not start:\n%s\n(scripts/cluster --help; `make setup` installs what they need)" % text)
        self.about = re.search(r"guests?, (.*), up in", text)
        self.about = Cluster.booted = self.about[1] if self.about else "?"
        was = rigs.of_status(json.loads(subprocess.run(self.command("status", "--json"), cwd=TOP, stdin=subprocess.DEVNULL, capture_output=True,
                                                       text=True, check=True).stdout))
        why = rigs.objection(self.rig, was)
        if why:
            self.down()
            fail("the guests are not those that were asked for: " + why)
        say("rig: " + rigs.text(was))
        Cluster.ran.append(was)

    def down(self):
        subprocess.run(self.command("down"), cwd=TOP, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        self.up()
        try:
            if self.module:
                self.load_module()
            self.mpi(self.nodes, BUILD + "/apps/example")  # files are in the guests' caches from here on
            clock = self.run(0, "cat", "/sys/devices/system/clocksource/clocksource0/current_clocksource").strip()
            if clock not in ("tsc", "kvm-clock"):
                say("the clock of the %s is %s, which is slow to read: figures are worse than they need be" % (self.kind, clock))
        except Failed as f:
            self.__exit__()
            fail("the %s do not work: %s" % (self.kind, f))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for p in background:
            end(p)
        background.clear()
        self.down()

    def load_module(self):
        built = subprocess.run([os.path.join(TOP, "scripts/build-kmod")], cwd=TOP, capture_output=True, text=True)
        if built.returncode:
            raise Failed("dsm.ko cannot be built: " + built.stderr[-1500:])
        for node in range(self.nodes):
            self.run(node, "sh", "-c", "modprobe -a ib_core && insmod " + built.stdout.split()[-1])

    def packets(self, node):
        """That the RDMA device of this machine has sent."""
        return int(self.run(node, "sh", "-c", PACKETS_SENT, self.device))

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
        """A command on one machine, in the background."""
        return self.start(self.command("run", "--node", str(node), "--", *words))

    def run(self, node, *words):
        return self.finish(self.begin(node, *words))

    def net(self, node, *words):
        """scripts/cluster net: what the guest sends is lost, late, or limited."""
        self.finish(self.start(self.command("net", str(node), *words)))

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


def take_rigs():
    """Those of the machines that were started since the last call."""
    ran, Cluster.ran = Cluster.ran, []
    return ran


def end(p):
    """A command on a machine: a signal to ours is a signal to it. What it wrote."""
    if p.poll() is None:
        p.terminate()
        try:
            return "".join(p.communicate(timeout=15))
        except subprocess.TimeoutExpired:
            p.kill()
    return "".join(p.communicate())


def missing(ability, what):
    """Whether the machines cannot do this (can_ABILITY of Cluster). If so, `what` is not measured, and all output says so."""
    machines = Cluster.instead or Cluster
    if getattr(machines, "can_" + ability):
        return False
    unmeasured(what, {"vectors": "only guests count the completions of a vector by processor", "rate": "only guests have a link whose rate can be set",
                      "freeze": "only guests can be stopped", "icount": "only guests count instructions",
                      "link": "only guests are given another RDMA device"}[ability])
    return True


def unmeasured(what, why):
    """Say so, and note it for the tables."""
    if what not in Cluster.unmeasured:
        say("not measured here: %s: %s" % (what, why))
    Cluster.unmeasured[what] = why


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


# ---- programs ------------------------------------------------------------------------------------


def single(cluster, env, samples, floor=None, *options):
    """Operations timed one by one: {(row, part): us}."""
    rows = json_lines(cluster.mpi(2, BUILD + "/bench/noise", "--samples", str(samples), "--gap", str(GAP_US), *(["--floor", floor] if floor else []), *options, env=env))
    return {(r["row"], part): r[part + "_us"] for r in rows if "row" in r for part in ("p10", "median", "p99")}


def micro(cluster, env, *args):
    rows = json_lines(cluster.mpi(2, BUILD + "/bench/micro", *args, env=env))
    return {(r["row"], r["unit"]): r["value"] for r in rows}


def app_run(cluster, n, app, args, env, before=()):
    """Seconds and counters of one run. before: words before the program."""
    out = cluster.mpi(n, *before, BUILD + "/apps/" + app, *args, "--no-verify", "--quiet", "--table", env=env)
    found = {line[:24].strip(): float(line[24:].split()[0]) for line in out.splitlines()
             if len(line) > 24 and re.match(r"\s*[0-9.]+( |$)", line[24:])}
    seconds = float(re.search(r"\btime_s=([0-9.]+)", out)[1])
    values = {name: sum(found.get(c, 0) for c in counters) * (1 << 20 if name == "bytes" else 1) for name, counters in COUNTERS.items()}
    return {"seconds": seconds, **values}
