# SPDX-License-Identifier: BSD-2-Clause
"""Real machines for benchmarks, reached by scripts/cluster --hosts: what each of them has, and whether it can take part. Devices, addresses
and completion vectors are taken as they are."""
import concurrent.futures, hashlib, json, os, shlex, subprocess, sys

import rigs
from guests import BUILD, TOP, Cluster, Failed, say
from report import fail

sys.path.insert(0, os.path.join(TOP, "tests/rig"))
from common import Failure
from realhosts import names as hosts_of, ssh

LOCKED_KIB = 1 << 20  # of memory that ranks and owners of queue pairs lock on a host
CAN_LOCK = 1 << 14  # CAP_IPC_LOCK: no limit
ACTIVE, IPOIB = "4", "32"  # state of a port; type of an interface
TOOLS = {"ib_send_lat": "perftest", "ib_write_lat": "perftest", "ib_send_bw": "perftest", "orted": "openmpi-bin", "setsid": "util-linux"}

# Run by ssh on a host: $0 the checkout, $1 the other hosts, then programs of the build. Prints
# lines "KEY WORD...".
PROBE = r"""
PATH=$PATH:/usr/sbin:/sbin
echo reached
cd "$0" 2>/dev/null || exit 0
echo folder
hosts=$1; shift
for file; do [ ! -e "$file" ] || echo file "$file" $(sha256sum <"$file"); done
for tool in %s; do ! command -v $tool >/dev/null || echo tool $tool; done
echo processors $(nproc)
echo kernel $(uname -r)
echo locked $(ulimit -l) $(sed -n 's/^CapEff:[^0-9a-f]*//p' /proc/self/status)
[ ! -d /sys/module/dsm ] || echo module
for port in /sys/class/infiniband/*/ports/1; do
	[ -e "$port" ] || continue
	device=${port%%%%/ports/1} driver=$(readlink -f ${port%%%%/ports/1}/device/driver)
	driver=${driver##*/}
	case $(readlink -f $device) in */virtual/*) driver=software ;; esac
	net=$(cat $port/gid_attrs/ndevs/0 2>/dev/null || true)
	echo port ${device##*/} $(cut -d: -f1 $port/state) $(cat $port/link_layer) "${net:--}" "${driver:--}" $(cat $port/rate)
done
for host in $hosts; do
	address=$(getent ahostsv4 $host | sed 's/ .*//;q')
	[ "$address" ] || { echo unknown $host; continue; }
	net=$(ip -o route get $address | sed -n 's/.* dev \([^ ]*\).*/\1/p')
	echo route $host $net $(cat /sys/class/net/$net/type)
done
""" % " ".join(TOOLS)

AS_ROOT = 'as_root() { if [ "$(id -u)" = 0 ]; then env PATH="$PATH:/usr/sbin:/sbin" "$@"; else sudo -n "$@"; fi; }; '


class Facts:
    """What a host says of itself."""

    def __init__(self, host, text):
        self.host, lines = host, [line.split() for line in text.splitlines() if line.strip()]
        self.keys = {words[0] for words in lines}

        def all_of(key):
            return [words[1:] for words in lines if words[0] == key]

        def one(key):
            return (all_of(key) or [["0"]])[0]
        self.files = {words[0]: words[1] for words in all_of("file")}
        self.tools = {words[0] for words in all_of("tool")}
        self.processors, self.kernel = int(one("processors")[0]), one("kernel")[0]
        self.locked, self.capabilities = (one("locked") + ["0"])[:2]
        self.ports = [dict(zip(("device", "state", "layer", "net", "driver", "rate"), words)) for words in all_of("port")]
        self.routes, self.unknown = all_of("route"), [words[0] for words in all_of("unknown")]
        self.active = [p["device"] for p in self.ports if p["state"] == ACTIVE]

    def about(self, device):
        port = next(p for p in self.ports if p["device"] == device)
        return "%s: %s (%s, %s Gb/s), Linux %s, %d processors" % (self.host, device, port["driver"], port["rate"],
                                                                 self.kernel, self.processors)


def checksum(path):
    if not os.path.exists(path):
        fail("there is no %s: `make bench-programs`" % path)
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def ask(host, hosts, programs):
    """The Facts of a host; a Failed that says how it can be reached."""
    line = "exec sh -c " + shlex.join([PROBE, TOP, " ".join(h for h in hosts if h != host), *programs])
    way = " ".join(ssh())
    try:
        done = subprocess.run([*ssh(), host, line], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        why = (done.stderr.strip().splitlines() or ["exit status %d" % done.returncode])[-1]
    except subprocess.TimeoutExpired:
        why = "no answer in 60 s"
    except OSError as e:
        why = str(e)
    else:
        if "reached" in done.stdout.split():
            return Facts(host, done.stdout)
    raise Failed("%s: not reached by `%s %s` (%s). This command must work without a password: `ssh-copy-id %s`" % (host, way, host, why, host))


def objection(f, programs):
    """Why this host cannot take part, and the command that mends it; or None."""
    if "folder" not in f.keys:
        return "there is no %s. The checkout must have the same path on all hosts: mount it there, or `rsync -a %s/ %s:%s/`" % (TOP, TOP, f.host, TOP)
    for name in programs:
        if f.files.get(name) != checksum(os.path.join(TOP, name)):
            return "%s is %s. Copy the build: `rsync -a %s/ %s:%s/`" % (os.path.join(TOP, name), "not that of this machine" if name in f.files else "missing",
                                                                       TOP, f.host, TOP)
    for tool in ("orted", "setsid"):
        if tool not in f.tools:
            return "there is no %s: `ssh %s sudo apt-get install %s`" % (tool, f.host, TOOLS[tool])
    if f.unknown:
        return "it does not know the name %s: `echo ADDRESS %s | ssh %s sudo tee -a /etc/hosts`" % (f.unknown[0], f.unknown[0], f.host)
    if not f.ports:
        return "no RDMA device. If it has one, load its driver; `ssh %s sudo rdma link add rxe0 type rxe netdev eth0` makes one in software" % f.host
    if not f.active:
        down = f.ports[0]
        return "no port of an RDMA device is active: %s is down. %s" % (down["device"], (
            "Start a subnet manager, `sudo opensm -B`, if the switch has none" if down["layer"] == "InfiniBand" else
            "`ssh %s sudo ip link set %s up`; `rdma link` shows the state" % (f.host, down["net"] if down["net"] != "-" else "INTERFACE")))
    if f.locked != "unlimited" and int(f.locked) < LOCKED_KIB and not int(f.capabilities, 16) & CAN_LOCK:
        return ("a process may lock %s KiB of memory, and needs %d: `echo '* - memlock unlimited' | ssh %s sudo tee /etc/security/limits.d/rdma.conf`, and log in again" %
                (f.locked, LOCKED_KIB, f.host))
    return None


def devices_of(facts):
    """The active devices to use, by names that all hosts have: those of DSM_NET_DEVICE, or all."""
    wanted = [d for d in os.environ.get("DSM_NET_DEVICE", "").split(",") if d]
    for d in wanted:
        if d.partition(":")[2] not in ("", "1"):
            raise Failed("DSM_NET_DEVICE=%s: the benchmarks use port 1 of a device" % d)
    wanted = [d.partition(":")[0] for d in wanted]
    for f in facts:
        for d in wanted:
            if d not in f.active:
                raise Failed("%s: DSM_NET_DEVICE names %s, which is %s; active: %s" %
                             (f.host, d, "down" if d in [p["device"] for p in f.ports] else "not there", " ".join(f.active)))
    found = wanted or [d for d in facts[0].active if all(d in f.active for f in facts)]
    if not found:
        raise Failed("no active RDMA device has the same name on all hosts (%s): rename one, `ssh HOST sudo rdma dev set OLD name NEW`" %
                     "; ".join("%s: %s" % (f.host, " ".join(f.active)) for f in facts))
    return found


class Hosts(Cluster):
    """Real machines, for a `with`: the first of --hosts. What a part needs of a rig is for guests."""

    kind = "hosts"
    can_vectors = can_rate = can_freeze = can_icount = can_link = False
    names, load, described = [], None, "?"  # all of --hosts; --load-module; what the hosts of the last part are
    programs = ["apps/example", "bench/noise", "bench/share", "libdsm.so"]  # which have to be the same everywhere

    def __init__(self, nodes, module=False, **need):
        super().__init__(nodes, module=module, **need)
        self.loaded = []  # hosts where we have loaded the module

    def need_rig(self, nodes, need):
        self.rig, self.cpus = rigs.Need(nodes, **{**need, "nics": 1}), need.get("cpus", 1)

    @property
    def hosts(self):
        return self.names[:self.nodes]

    def command(self, *words):
        return [os.path.join(TOP, "scripts/cluster"), "--hosts", ",".join(self.hosts), *words]

    def address(self, node):
        return self.hosts[node]

    def up(self):
        if self.nodes > len(self.names):
            fail("this takes %d hosts, and --hosts names %d: %s" % (self.nodes, len(self.names), " ".join(self.names)))
        try:
            self.look()
        except (Failed, Failure) as f:
            fail(str(f))

    def look(self):
        programs = [os.path.join(BUILD, name) for name in self.programs]
        with concurrent.futures.ThreadPoolExecutor(len(self.hosts)) as pool:
            self.facts = list(pool.map(lambda host: ask(host, self.hosts, programs), self.hosts))
        for f in self.facts:
            why = objection(f, programs)
            if why:
                raise Failed("%s: %s" % (f.host, why))
        self.devices = devices_of(self.facts)
        self.gid = next((g for g in [os.environ.get("DSM_NET_GID", "")] if g.isdigit()), None)
        self.cpus = min(f.processors for f in self.facts)
        routes = [route for f in self.facts for route in f.routes]
        self.network = ",".join(dict.fromkeys(net for _, net, _ in routes))
        self.software = any(p["driver"] == "software" for f in self.facts for p in f.ports if p["device"] == self.device)
        self.ipoib = any(kind == IPOIB for *_, kind in routes)
        self.about = "; ".join(f.about(self.device) for f in self.facts)
        Hosts.described = self.about
        say("hosts: " + self.about)
        Cluster.ran.append({"hosts": self.hosts})

    def down(self):
        for node in self.loaded:
            subprocess.run(self.command("run", "--node", str(node), "--", "sh", "-c", AS_ROOT + "as_root rmmod dsm"), cwd=TOP, stdin=subprocess.DEVNULL)
        self.loaded = []

    def need(self, *programs):
        for f in self.facts:
            for name in programs:
                if name not in f.tools:
                    raise Failed("%s: there is no %s: `ssh %s sudo apt-get install %s`" % (f.host, name, f.host, TOOLS[name]))

    def mpi(self, n, *words, env=None, **more):
        """Ranks use the device that single programs use."""
        return super().mpi(n, *words, env={"DSM_NET_DEVICE": self.device, **(env or {})}, **more)

    def load_module(self):
        """Only if the user asks for it, because others may use the host. A module that this loads is unloaded at the end."""
        for node, f in enumerate(self.facts):
            if "module" in f.keys:
                continue
            if not self.load:
                raise Failed("%s: dsm.ko is not loaded. With --load-module it is, and unloaded at the end; or `make install-kmod` there, then "
                             "`sudo modprobe dsm`" % f.host)
            self.run(node, "sh", "-c", AS_ROOT + "as_root modprobe -a ib_core && as_root insmod " + shlex.quote(self.built(node, f)))
            self.loaded.append(node)

    def built(self, node, f):
        """The module for the kernel of this host: what --load-module names, or built from headers of this machine, or there."""
        if self.load is not True:
            return os.path.abspath(self.load)
        headers = "/usr/src/linux-headers-" + f.kernel
        words = [os.path.join(TOP, "scripts/build-kmod"), headers]
        if not os.path.exists(headers + "/Makefile"):
            return self.run(node, *words).split()[-1]
        built = subprocess.run(words, cwd=TOP, capture_output=True, text=True)
        if built.returncode:
            raise Failed("%s: dsm.ko cannot be built for its kernel: %s" % (f.host, built.stderr[-1500:]))
        return built.stdout.split()[-1]


# ---- options and results -------------------------------------------------------------------------


def add_arguments(p, module=False):
    rigs.add_arguments(p)
    p.add_argument("--hosts", metavar="A,B|FILE", help="measure on these machines over ssh (scripts/cluster --hosts) instead of in guests")
    if module:
        p.add_argument("--load-module", nargs="?", const=True, metavar="FILE", help="with --hosts: load dsm.ko where it is not loaded (FILE; without: it "
                       "is built for the kernel of the host), and unload it at the end")


def choose(a):
    """Use real machines, if asked to. Their results do not go to the file of the guests'. Otherwise the rig of guests that is asked for."""
    try:
        Cluster.asked = rigs.asked(a)
    except rigs.Refused as r:
        fail(str(r))
    if not a.hosts:
        return
    if Cluster.asked != rigs.Asked():
        fail("--pin, --nics, --irq-cpus and --accel are for guests")
    try:
        Hosts.names = hosts_of(a.hosts)
    except Failure as f:
        fail(str(f))
    Hosts.most = len(Hosts.names)
    Hosts.load = getattr(a, "load_module", None)
    Cluster.instead = Hosts


def output(a, name):
    """Where results go: build/bench-NAME.json, or build/bench-NAME-hosts.json."""
    return a.output or os.path.join(TOP, "build", "bench-%s%s.json" % (name, "-hosts" if a.hosts else ""))


def earlier(a):
    """The result of --from-json, or the one that --only completes, which has to be of the same machines."""
    path = a.from_json or (a.output if a.only and os.path.exists(a.output) else None)
    if not path:
        return {}
    with open(path) as f:
        result = json.load(f)
    if not a.from_json and result.get("hosts") != (Hosts.names if a.hosts else None):
        fail("%s holds figures of %s: give another --output, or remove it" % (path, " ".join(result.get("hosts") or ["guests"])))
    return result


def note(result, parts):
    """Put into a result which machines it is of, and what these could not do in the parts that were just measured."""
    if Cluster.instead:
        result["hosts"], result["about"] = Hosts.names, Hosts.described
        result["unmeasured"] = {**{what: why for what, why in result.get("unmeasured", {}).items() if what.split(":")[0] not in parts},
                                **Cluster.unmeasured}


def where(result, about=None):
    """For the first line of figures."""
    if "hosts" in result:
        return "on real machines (%s)" % result["about"]
    return "in QEMU guests%s on %d processors" % (" (%s)" % about if about else "", result["cpus"])


def unmeasured_table(result):
    return ["not measured there", "because"], [[what, why] for what, why in result.get("unmeasured", {}).items()]
