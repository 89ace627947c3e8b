# SPDX-License-Identifier: BSD-2-Clause
"""A victim beside a neighbour, between guests: sides, neighbours, victims, and the counters that tell the sides apart.

The rxe devices of the guests honour completion vectors (`scripts/cluster vectors on`) on every side. A side is where the
completions of victim and neighbour go:

    off         both outside of CQ groups: one vector, one processor in each guest
    on          each in a group, with a vector of its own; threads that wait for events run on the processor of their vector
    exclusive   the same, and all threads of victim and neighbour are bound to the processor of their vector
"""
import contextlib, os, re, time

from guests import BUILD, GAP_US, TOP, Failed, background, end, json_lines, middle

NOISE_PORT, LATENCY_PORT = 18515, 18516  # of perftest
PRELOAD = os.path.join(TOP, BUILD, "libcqgroup-preload.so")
# Two processors, and so two vectors: everything of the victim but its bulk data, and the neighbour.
TABLE = "coherence=0;bulk=1"
VICTIM_CPU, NEIGHBOUR_CPU = 0, 1
SIDES = ("off", "on", "exclusive")
NOISE, CHURN, DSM, LATENCY = "ib_send_bw", "churn", "noise", "ib_send_lat"  # as the kernel calls the programs
VICTIMS = {"read miss": DSM, "atomic": DSM, "lock": DSM, LATENCY + " -e": LATENCY}
WINDOW = {1: 4, 16: 2, 100: 1}  # messages in flight per queue pair: more only makes a longer queue in emulated guests
SHOW_CPUS = ["sh", "-c", 'grep Cpus_allowed_list /proc/self/status; exec "$0" "$@"']
SHARE = 0.8  # of completions that have to be where their side says


# ---- sides ---------------------------------------------------------------------------------------


def groups(side):
    """Settings of libdsm."""
    return {"DSM_CQ_GROUPS": "off" if side == "off" else TABLE}


def bound(side, cpu):
    """Words before a program; the program is to print the processors it may use."""
    return (["taskset", "-c", str(cpu)] if side == "exclusive" else []) + SHOW_CPUS


def unmodified(side, group, cpu, *words):
    """An unmodified program in a group."""
    preload = [] if side == "off" else ["env", "LD_PRELOAD=" + PRELOAD, "CQGROUP=" + group, "DSM_CQ_GROUPS=" + TABLE]
    return [*bound(side, cpu), *preload, *words]


def perftest(cluster, side, group, cpu, port, name, *words):
    """A perftest program between the guests: (server, words of the client). Outside of groups, libdsm begins with the vector of the
    rank, which is that of the guest here; so does perftest, to meet it there."""
    def at(node):
        return unmodified(side, group, cpu, name, "-d", cluster.device, "-u", "18", "-F", "-p", str(port), *(["-X", str(node)] if side == "off" else []), *words)
    server = cluster.begin(0, *at(0))
    cluster.listening(server, port)
    return server, [*at(1), cluster.address(0)]


def cpus_of(text):
    return sorted(set(re.findall(r"^Cpus_allowed_list:\s*(\S+)", text, re.M)))


def honour_vectors(cluster):
    """The network's interrupt takes every packet first, which a device would do by itself: not on the victim's processor."""
    cluster.finish(cluster.start(cluster.command("vectors", "on")))
    for node in range(2):
        cluster.run(node, "sh", "-c", "for i in /proc/irq/*/virtio*-input.*; do echo %d >\"${i%%/*}/smp_affinity_list\"; done" % NEIGHBOUR_CPU)


# ---- counters ------------------------------------------------------------------------------------


def read_counters(cluster):
    """Since vectors were turned on: what each program's packets waited for, and its completions by guest and processor."""
    found = {}
    for line in cluster.finish(cluster.start(cluster.command("vectors"))).splitlines():
        node, name, *values = line.split()
        if name.isdigit() or not values or not all(v.isdigit() for v in values):
            continue
        packets, ahead, *cpus = map(int, values)
        program = found.setdefault(name, {"packets": 0, "ahead": 0, "cpus": {}})
        program["packets"] += packets
        program["ahead"] += ahead
        program["cpus"][node.rstrip(":")] = cpus
    return found


def since(before, after):
    """What was counted in between, of the programs that did anything."""
    found = {}
    for name, now in after.items():
        then = before.get(name, {"packets": 0, "ahead": 0, "cpus": {}})
        cpus = {node: [a - b for a, b in zip(of, then["cpus"].get(node, [0] * len(of)))] for node, of in now["cpus"].items()}
        found[name] = {"packets": now["packets"] - then["packets"], "ahead": now["ahead"] - then["ahead"], "cpus": cpus}
    return {name: c for name, c in found.items() if c["packets"] or completions(found, name)}


def completions(counts, program):
    return sum(sum(of) for of in counts.get(program, {"cpus": {}})["cpus"].values())


def share(counts, program, cpu_of):
    """Of a program's completions, those that were on the processor cpu_of(guest)."""
    cpus, total = counts.get(program, {"cpus": {}})["cpus"], completions(counts, program)
    return sum(of[cpu_of(node)] for node, of in cpus.items()) / total if total else 0


def busiest(counts, program):
    """The processor of each guest that has most of its completions."""
    cpus = counts.get(program, {"cpus": {}})["cpus"]
    return lambda node: cpus[node].index(max(cpus[node])) if node in cpus else VICTIM_CPU


def ahead(counts, program):
    """Packets of other programs that each packet of this one waited for at its processor."""
    c = counts.get(program, {"packets": 0})
    return c["ahead"] / c["packets"] if c["packets"] else None


def on_victims_cpu(counts, program, neighbour):
    """The share of the neighbour's completions that were on the processors with most of the victim's."""
    return share(counts, neighbour, busiest(counts, program))


# ---- neighbours ----------------------------------------------------------------------------------


def packets(cluster, node, device):
    return int(cluster.run(node, "cat", "/sys/class/infiniband/%s/ports/1/hw_counters/rcvd_pkts" % device))


def await_traffic(cluster, parts, least=64, limit=90, device=None):
    """Until packets arrive all the time; a program of parts may fail before."""
    device = device or cluster.device
    before, busy, stop = packets(cluster, 0, device), 0, time.monotonic() + limit
    while busy < 2:
        time.sleep(0.2)
        for p in parts:
            if p.poll() is not None:
                raise Failed("%s: %s" % (" ".join(p.args[4:]), "".join(p.communicate())[-1500:]))
        if time.monotonic() > stop:
            raise Failed("perftest sends nothing")
        now = packets(cluster, 0, device)
        busy, before = busy + 1 if now - before >= least else 0, now


def ended(p):
    """End a program; what it wrote."""
    out = end(p)
    if p in background:
        background.remove(p)
    return out


@contextlib.contextmanager
def noise(cluster, side, qps):
    """perftest sends from node1 to node0 over so many queue pairs until the end of the `with`, which gets a dict with the processors
    that it may use. Small messages: completions are to load the device; by events, since two programs that poll would leave
    no processor to the guests."""
    about = {}
    if not qps:
        yield about
        return
    server, client = perftest(cluster, side, "bulk", NEIGHBOUR_CPU, NOISE_PORT, NOISE, "-q", str(qps), "-s", "256", "-t", str(WINDOW[qps]),
                              "-r", "16", "-e", "-N", "-n", "5000000")
    parts = [server, cluster.begin(1, *client)]
    await_traffic(cluster, parts)
    yield about
    for p in parts:
        if p.poll() is not None:
            raise Failed("%s ended early: %s" % (NOISE, "".join(p.communicate())[-1500:]))
    about["cpus"] = cpus_of("".join(ended(p) for p in reversed(parts)))


@contextlib.contextmanager
def churn(cluster, side, objects):
    """A process in each guest that creates and destroys so many queue pairs and CQs at a time. The dict gets what they did."""
    words = unmodified(side, "bulk", NEIGHBOUR_CPU, BUILD + "/bench/churn", "--device", cluster.device, "--objects", str(objects))
    about = {}
    with both(cluster, words) as out:
        yield about
    rows = json_lines(out[0])
    if len(rows) != 2:
        raise Failed("churn did not end as it should: " + out[0][-1500:])
    about.update({"cpus": cpus_of(out[0]), "queue_pairs": sum(r["queue_pairs"] for r in rows),
                  "per_s": middle([r["queue_pairs"] / r["seconds"] for r in rows])})


@contextlib.contextmanager
def loop(cluster):
    """A process in each guest that only takes processor time, where churn runs in its group. The dict gets how much it took."""
    about = {}
    with both(cluster, ["taskset", "-c", str(NEIGHBOUR_CPU), *SHOW_CPUS, "sh", "-c", "trap 'times; exit' TERM; while :; do :; done"]) as out:
        yield about
    times = re.findall(r"^(\d+)m([0-9.]+)s", out[0], re.M)  # of each shell, and of its children
    about.update({"cpus": cpus_of(out[0]), "cpu_s": sum(60 * int(m) + float(s) for m, s in times)})


@contextlib.contextmanager
def both(cluster, words):
    """The same program in each guest, until the end of the `with`; then the list has what it wrote."""
    parts, out = [cluster.begin(node, *words) for node in range(2)], []
    time.sleep(1.5)
    yield out
    for p in parts:
        if p.poll() is not None:
            raise Failed("%s ended early: %s" % (" ".join(p.args[4:]), "".join(p.communicate())[-1500:]))
    out.append("".join([ended(p) for p in parts]))


# ---- victims -------------------------------------------------------------------------------------


def dsm_victim(cluster, side, samples):
    """Read misses, atomics and locks, each timed: {row: {"median", "p99"}}, and what libdsm and the kernel say about it."""
    env = {"DSM_NET": "verbs", "DSM_STATS": "json", **groups(side)}
    cluster.mpi(2, *bound(side, VICTIM_CPU), BUILD + "/bench/noise", "--samples", str(samples), "--gap", str(GAP_US), env=env)
    rows = json_lines(cluster.said)
    stats = next(r for r in rows if "vectors" in r)
    return ({r["row"]: {"median": r["median_us"], "p99": r["p99_us"]} for r in rows if "row" in r},
            {"cpus": cpus_of(cluster.said), "vectors": stats["vectors"]})


def latency_victim(cluster, side, samples):
    """An unmodified ib_send_lat that waits for events; it prints half round trips."""
    server, client = perftest(cluster, side, "coherence", VICTIM_CPU, LATENCY_PORT, LATENCY, "-e", "-s", "32", "-n", str(samples))
    out = cluster.run(1, *client)
    cpus = cpus_of(cluster.said + cluster.finish(server))
    last = [line.split() for line in out.splitlines() if re.match(r"\s*32\s", line)][-1]
    return {LATENCY + " -e": {"median": 2 * float(last[4]), "p99": 2 * float(last[7])}}, {"cpus": cpus}


def measure_victims(cluster, side, samples):
    """{victim: (times, what was counted meanwhile)}, one program after the other."""
    found, before = {}, read_counters(cluster)
    for program, measure in ((DSM, dsm_victim), (LATENCY, latency_victim)):
        times, about = measure(cluster, side, samples)
        now = read_counters(cluster)
        about["programs"], before = since(before, now), now
        found.update({row: (t, about) for row, t in times.items()})
    return found


# ---- what the counters say -----------------------------------------------------------------------


def expected_cpus(side, cpu):
    return [str(cpu)] if side == "exclusive" else ["0-1"]


def libdsm_objection(side, vectors):
    used = {(v["class"], v["vector"]) for v in vectors if v["completions"]}
    names = {name for name, _ in used}
    if (len(names) > 1) != (side != "off"):
        return "the completions of libdsm came in %d groups" % len(names)
    if side != "off" and any((vector == VICTIM_CPU) != name.startswith("coherence") for name, vector in used):
        return "groups of libdsm use the vector of others"
    return None


def side_objection(side, program, neighbour, about, of_neighbour):
    """Why these are not the counters of a victim on this side, or None. neighbour: the program beside it, "" if there is none.
    Outside of groups, nothing says where churn runs: its messages do not leave the guest."""
    counts = about["programs"]
    for other in ({NOISE, CHURN} - {neighbour}) & set(counts):
        return "%s ran, and should not have" % other
    if about["cpus"] != expected_cpus(side, VICTIM_CPU):
        return "the victim might run on processors %s" % " and ".join(about["cpus"])
    if completions(counts, program) < 100:
        return "%d completions of the victim were counted" % completions(counts, program)
    own = share(counts, program, busiest(counts, program) if side == "off" else lambda node: VICTIM_CPU)
    if own < SHARE:
        return "only %.0f %% of the victim's completions were on the processor of its vector" % (100 * own)
    if "vectors" in about and libdsm_objection(side, about["vectors"]):
        return libdsm_objection(side, about["vectors"])
    if not neighbour:
        return None
    if of_neighbour["cpus"] != expected_cpus(side, NEIGHBOUR_CPU):
        return "%s might run on processors %s" % (neighbour, " and ".join(of_neighbour["cpus"]))
    if completions(counts, neighbour) < 100:
        return "%d completions of %s were counted" % (completions(counts, neighbour), neighbour)
    there = on_victims_cpu(counts, program, neighbour)
    if there > 1 - SHARE if side != "off" else neighbour == NOISE and there < SHARE:
        return "%.0f %% of the completions of %s were on the victim's processor" % (100 * there, neighbour)
    return None
