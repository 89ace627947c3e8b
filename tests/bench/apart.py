# SPDX-License-Identifier: BSD-2-Clause
"""Parts of tests/bench/cluster: latency beside perftest in guests with two NICs, where a CQ group owns a device.

Each NIC of a guest has its interrupts, and so the packets of its RDMA device, on a processor of its own, and each processor is pinned
to a core of the host. Nothing redirects packets: the devices ignore completion vectors, and stand for two of them. Both programs are
unmodified and are told to use rxe0. A side is where they go:

    off   both are outside of CQ groups, on rxe0
    on    each is in a group that owns a device, rxe0 the victim's and rxe1 the neighbour's: the preload library opens it
"""
import contextlib

import beside
from beside import PRELOAD, ended
from guests import Cluster, Failed, missing, say
from neighbours import median_of, ratio, rows_of, spread
from report import Part, verdict

SIDES = ("off", "on")
TABLE = "coherence=rxe0@0;bulk=rxe1@1"
QPS, SAMPLES = 100, 1000
# Neighbours. One that polls is bound to the processor of the second NIC on both sides: no group
# binds a thread that never waits.
NEIGHBOURS = {"quiet": None, "send": ["ib_send_bw", "-e", "-s", "256", "-r", "16"],
              "write": ["taskset", "-c", "1", "ib_write_bw", "-s", "4096"]}
SHARE = 0.95  # of the interrupts of a NIC that have to be on its processor
LEAST = 1000  # packets of a neighbour
COUNTERS = r"""date +%s.%N
for i in 0 1; do
	driver=$(readlink /sys/class/net/eth$i/device)
	echo $(cat /sys/class/infiniband/rxe$i/ports/1/hw_counters/rcvd_pkts) \
		$(awk -v name=${driver##*/}-input.0 '$NF == name { print $2, $3 }' /proc/interrupts)
done"""


# ---- programs ------------------------------------------------------------------------------------


def command(cluster, side, group, words, port, *more):
    """An unmodified program of perftest, which is told to use the first device."""
    preload = [] if side == "off" else ["env", "LD_PRELOAD=" + PRELOAD, "CQGROUP=" + group, "DSM_CQ_GROUPS=" + TABLE]
    return [*preload, *words, "-d", cluster.device, "-u", "18", "-F", "-p", str(port), *more]


@contextlib.contextmanager
def neighbour(cluster, side, name):
    """perftest sends from node1 to node0 until the end of the `with`."""
    words = NEIGHBOURS[name]
    if not words:
        yield
        return
    words = command(cluster, side, "bulk", words, beside.NOISE_PORT, "-q", str(QPS), "-t", "1", "-N", "-n", "5000000")
    server = cluster.begin(0, *words)
    cluster.listening(server, beside.NOISE_PORT)
    parts = [server, cluster.begin(1, *words, cluster.address(0))]
    beside.await_traffic(cluster, parts, device="rxe0" if side == "off" else "rxe1")
    yield
    for p in parts:
        if p.poll() is not None:
            raise Failed("%s ended early: %s" % (name, "".join(p.communicate())[-1500:]))
    for p in reversed(parts):
        ended(p)


def victim(cluster, side):
    """Round trips of ib_send_lat, which waits for events and prints their halves."""
    words = command(cluster, side, "coherence", ["ib_send_lat", "-e"], beside.LATENCY_PORT, "-s", "32", "-n", str(SAMPLES))
    server = cluster.begin(0, *words)
    cluster.listening(server, beside.LATENCY_PORT)
    out = cluster.run(1, *words, cluster.address(0))
    cluster.finish(server)
    last = [line.split() for line in out.splitlines() if line.split()[:2] == ["32", str(SAMPLES)]][-1]
    return {"median": 2 * float(last[4]), "p99": 2 * float(last[7])}


def read_counters(cluster):
    """Of node0: seconds, and of each device the packets that it has received and the interrupts of its NIC by processor."""
    clock, *lines = cluster.run(0, "sh", "-c", COUNTERS).splitlines()
    return {"seconds": float(clock), "devices": [list(map(int, line.split())) for line in lines]}


def since(before, after):
    return {"seconds": after["seconds"] - before["seconds"],
            "devices": [[b - a for a, b in zip(*of)] for of in zip(before["devices"], after["devices"])]}


def measure(runs, names):
    found = {}
    if missing("link", "noise-nics: groups that own a device"):
        return []
    with Cluster(2, cpus=2, pin=True, nics=2, irq_cpus=(0, 1)) as cluster:
        cluster.need("ib_send_lat", "ib_send_bw", "ib_write_bw")
        for run in range(runs):
            for name in names:
                for side in SIDES if run % 2 else reversed(SIDES):
                    say("noise-nics, turn %d of %d: %s, groups %s" % (run + 1, runs, name, side))
                    with neighbour(cluster, side, name):
                        before = read_counters(cluster)
                        times = victim(cluster, side)
                        counted = since(before, read_counters(cluster))
                    found.setdefault((name, side), []).append({**times, "counted": counted})
    return rows_of(found, "beside", "side")


# ---- what the counters say -----------------------------------------------------------------------


def of_neighbour(turn, side):
    """Packets of the neighbour; of those on its device, the victim's are a message and an acknowledgement for each sample."""
    first, second = (device[0] for device in turn["counted"]["devices"])
    return second if side == "on" else max(0, first - 2 * SAMPLES)


def turn_objection(name, side, turn):
    (first, *of_first), (second, *of_second) = turn["counted"]["devices"]
    if first < 2 * SAMPLES:
        return "the victim's device received %d packets" % first
    if first > 3 * SAMPLES and (name == "quiet" or side == "on"):
        return "the victim's device received %d packets, more than the victim's" % first
    if second > 100 and (name == "quiet" or side == "off"):
        return "the other device received %d packets" % second
    if name != "quiet" and of_neighbour(turn, side) < LEAST:
        return "the neighbour's device received %d of its packets" % of_neighbour(turn, side)
    for cpu, interrupts in enumerate((of_first, of_second)):
        if interrupts[cpu] < SHARE * sum(interrupts):
            return "only %d of %d interrupts of eth%d were on processor %d" % (interrupts[cpu], sum(interrupts), cpu, cpu)
    return None


def objection(row):
    return next(filter(None, (turn_objection(row["beside"], row["side"], t) for t in row["turns"])), None) if row["turns"] else "has no counters"


def name_of(r):
    return "%s, groups %s" % (r["beside"], r["side"])


def rows_by_key(data):
    return {(r["beside"], r["side"]): r for r in data}


def tables(data):
    rows, out = rows_by_key(data), []
    for name, side in sorted(rows, key=lambda key: (list(NEIGHBOURS).index(key[0]), SIDES.index(key[1]))):
        r = rows[name, side]
        quiet = [spread(ratio(rows, (name, side), ("quiet", side), lambda t, part=part: t[part])) for part in ("median", "p99")]
        off = [spread(ratio(rows, (name, side), (name, "off"), lambda t, part=part: t[part])) for part in ("median", "p99")]
        out.append([name, side, median_of(r, lambda t: t["median"]), median_of(r, lambda t: t["p99"]), *(["-", "-"] if name == "quiet" else quiet),
                    *(["-", "-"] if side == "off" else off),
                    "-" if name == "quiet" else median_of(r, lambda t, side=side: of_neighbour(t, side) / t["counted"]["seconds"])])
    yield ("ib_send_lat -e beside %d queue pairs of perftest, two NICs, pinned" % QPS,
           (["beside", "groups", "us", "99 % us", "of quiet", "99 %, of quiet", "on / off", "99 %, on / off", "packets/s of the neighbour"], out))


def verdicts(data):
    rows = rows_by_key(data)
    for name in dict.fromkeys(name for name, _ in rows if name != "quiet"):
        for part, what in (("median", "median"), ("p99", "99 %")):
            r = ratio(rows, (name, "on"), (name, "off"), lambda t, part=part: t[part])
            yield verdict("ib_send_lat -e, %s, beside %s on two NICs: groups on / off" % (what, name), r and r[0], most=0.5)


# ---- counters of one side in the name of another -------------------------------------------------


def samples():
    """[(name, part, rows, refused)]"""
    def row(name, side, first, second, of_first=(3000, 0), of_second=(0, 9000)):
        counted = {"seconds": 3.0, "devices": [[first, *of_first], [second, *of_second]]}
        return [{"beside": name, "side": side, "turns": [{"median": 1, "p99": 2, "counted": counted}]}]
    lone, both, loud = 2 * SAMPLES + 20, 9 * SAMPLES, 7 * SAMPLES
    part = "noise-nics"
    return [("quiet", part, row("quiet", "off", lone, 0), False), ("off", part, row("send", "off", both, 0), False),
            ("on", part, row("send", "on", lone, loud), False), ("quiet with noise", part, row("quiet", "on", lone, loud), True),
            ("quiet with noise on the victim's device", part, row("quiet", "off", both, 0), True),
            ("on in the name of off", part, row("send", "off", lone, loud), True), ("off in the name of on", part, row("send", "on", both, 0), True),
            ("on without noise", part, row("send", "on", lone, 0), True), ("off without noise", part, row("write", "off", lone, 0), True),
            ("no victim", part, row("write", "on", 0, loud), True),
            ("interrupts of the first on both", part, row("send", "on", lone, loud, of_first=(1500, 1500)), True),
            ("interrupts of the second elsewhere", part, row("send", "on", lone, loud, of_second=(9000, 0)), True)]


PARTS = {"noise-nics": Part(lambda runs, _: measure(runs, ("quiet", "send")), objection, name_of, tables, verdicts),
         "write-nics": Part(lambda runs, _: measure(runs, ("quiet", "write")), objection, name_of, tables, verdicts)}
