# SPDX-License-Identifier: BSD-2-Clause
"""Parts of tests/bench/cluster about several ranks of a node: transfers beside read misses, queue pairs and memory."""
from guests import BUILD, Cluster, Failed, json_lines, say
from neighbours import median_of, ratio, rows_of, spread, two
from report import Part, verdict

TRANSFER = 4 << 20
SAMPLES, ROUNDS = 48, 3
RANKS = (1, 4, 16)  # of a node
WAYS = {"verbs": {"DSM_NET": "verbs", "DSM_BACKEND": "user"}, "shared": {"DSM_NET": "shared", "DSM_BACKEND": "user"},
        "module": {"DSM_NET": "verbs", "DSM_BACKEND": "kmod"}}
NETS = ("verbs", "shared")

# ---- transfers -----------------------------------------------------------------------------------


def measure_transfers(runs, quick):
    found = {}
    with Cluster(2, cpus=2) as cluster:
        for run in range(runs):
            for net in NETS:
                say("transfers, turn %d of %d: %s" % (run + 1, runs, net))
                cluster.mpi(4, BUILD + "/bench/transfers", "--samples", str(SAMPLES), "--rounds", str(1 if quick else ROUNDS),
                            env={**WAYS[net], "DSM_STATS": "json"})
                rows = json_lines(cluster.said)
                times = {r["row"]: r for r in rows if "row" in r}
                stats = next(r for r in rows if "net" in r)
                for half in ("quiet", "beside transfers"):
                    found.setdefault((net, half), []).append(
                        {"median": times[half]["median_us"], "p99": times[half]["p99_us"], "samples": times[half]["samples"],
                         "transfers": times["transfers"], "net": stats["net"], "queue_pairs": stats["queue_pairs"],
                         "read_faults": stats["read_faults"]})
    return rows_of(found, "net", "half")


def transfer_objection(row):
    for t in row["turns"]:
        moved = t["transfers"]
        if t["net"] != row["net"]:
            return "the messages went over %s" % t["net"]
        if (t["queue_pairs"] > 0) != (row["net"] == "shared"):
            return "%d queue pairs were shared" % t["queue_pairs"]
        if moved["count"] < 2 or moved["bytes"] < moved["count"] * TRANSFER:
            return "%d transfers moved %d bytes" % (moved["count"], moved["bytes"])
        if t["read_faults"] < 2 * t["samples"]:
            return "%d reads missed" % t["read_faults"]
    return None if row["turns"] else "has no counters"


def transfer_rows(data):
    return {(r["net"], r["half"]): r for r in data}


def rate(t):
    """MB/s of the neighbour."""
    return t["transfers"]["bytes"] / t["transfers"]["us"]


def transfer_tables(data):
    rows = transfer_rows(data)
    out = []
    for (net, half), r in rows.items():
        loud = half != "quiet"
        out.append([net, half, median_of(r, lambda t: t["median"]), median_of(r, lambda t: t["p99"]),
                    *([spread(ratio(rows, (net, half), (net, "quiet"), lambda t, p=p: t[p])) for p in ("median", "p99")] if loud else ["-", "-"]),
                    median_of(r, rate, two) if loud else "-"])
    yield ("Read misses of a rank beside a neighbour rank's transfers of 4 MiB",
           (["DSM_NET", "", "us", "99 % us", "of quiet", "99 %, of quiet", "transfers MB/s"], out))


def transfer_verdicts(data):
    r = ratio(transfer_rows(data), ("shared", "beside transfers"), ("shared", "quiet"), lambda t: t["p99"])
    yield verdict("read miss, 99 %, beside transfers / quiet, DSM_NET=shared", r and r[0], most=1.3)


# ---- queue pairs and memory ----------------------------------------------------------------------


def measure_ranks(runs, _):
    found = {}
    with Cluster(2, cpus=2, memory=2500, module=True) as cluster:
        for run in range(runs):
            for n in RANKS:
                for way, env in WAYS.items():
                    say("ranks, turn %d of %d: %d per node, %s" % (run + 1, runs, n, way))
                    cluster.mpi(2 * n, BUILD + "/bench/footprint", env={**env, "DSM_STATS": "json"}, limit=400)
                    rows = json_lines(cluster.said)
                    nodes = [r for r in rows if "rc" in r]
                    stats = next(r for r in rows if "net" in r)
                    if len(nodes) != 2:
                        raise Failed("footprint: %d nodes answered" % len(nodes))
                    found.setdefault((n, way), []).append(
                        {**max(nodes, key=lambda c: c["rc"]), "net": stats["net"], "fault": stats["fault"], "shared": stats["queue_pairs"],
                         "job_ranks": stats["ranks"], "connections": sum(c["open"] for c in stats["connections"])})
    return rows_of(found, "ranks", "way")


def rank_objection(row):
    for t in row["turns"]:
        if t["job_ranks"] != 2 * row["ranks"]:
            return "the job had %d ranks" % t["job_ranks"]
        if (t["of_module"] > 0) != (row["way"] == "module"):
            return "%d queue pairs were of the module" % t["of_module"]
        if (t["shared"] > 0) != (row["way"] == "shared"):
            return "%d queue pairs were shared" % t["shared"]
        if t["rc"] < 1 or t["registered"] <= 0:
            return "%d queue pairs and %d bytes of memory were counted" % (t["rc"], t["registered"])
        if not t["connections"]:
            return "the library has counted no connection"
    return None if row["turns"] else "has no counters"


def rank_rows(data):
    return {(r["ranks"], r["way"]): r for r in data}


def whole(v):
    return "%d" % v


def rank_tables(data):
    out = [[n, way, median_of(r, lambda t: t["rc"], whole), median_of(r, lambda t: t["of_module"], whole), median_of(r, lambda t: t["ud"], whole),
            median_of(r, lambda t: t["regions"], whole), median_of(r, lambda t: t["registered"] / 2**20, two),
            median_of(r, lambda t: t["connections"], whole)] for (n, way), r in rank_rows(data).items()]
    yield ("Queue pairs and memory of one of two guests",
           (["ranks per node", "", "RC queue pairs", "of the module", "UD queue pairs", "memory regions", "registered MiB", "connections of the job"], out))


def rank_verdicts(data):
    rows = rank_rows(data)
    most = max(n for n, _ in rows)
    for way in ("shared", "module"):
        value = (lambda t: t["of_module"]) if way == "module" else (lambda t: t["rc"])
        r = ratio(rows, (most, way), (1, way), value)
        yield verdict("queue pairs, %d ranks per node / one: %s" % (most, "of the module" if way == "module" else way), r and r[0], most=1)


# ---- counters of one side in the name of another -------------------------------------------------


def samples():
    """[(name, part, rows, refused)]"""
    def transfer(net, said, shared, count=10, moved=None, faults=300):
        return [{"net": net, "half": "quiet", "turns": [
            {"median": 1, "p99": 2, "samples": 100, "net": said, "queue_pairs": shared, "read_faults": faults,
             "transfers": {"count": count, "bytes": count * TRANSFER if moved is None else moved, "us": 1000}}]}]

    def job(way, of_module=0, shared=0, ranks=8, rc=12, registered=1 << 20, connections=12):
        return [{"ranks": 4, "way": way, "turns": [{"rc": rc, "ud": 4, "of_module": of_module, "registered": registered, "regions": 9,
                                                    "shared": shared, "job_ranks": ranks, "connections": connections}]}]
    yield from [("verbs", "transfers", transfer("verbs", "verbs", 0), False), ("shared", "transfers", transfer("shared", "shared", 2), False),
                ("verbs in the name of shared", "transfers", transfer("shared", "verbs", 0), True),
                ("shared in the name of verbs", "transfers", transfer("verbs", "shared", 2), True),
                ("shared without queue pairs", "transfers", transfer("shared", "shared", 0), True),
                ("shared, by another library", "transfers", transfer("shared", "verbs", 2), True),
                ("one transfer", "transfers", transfer("verbs", "verbs", 0, 1), True),
                ("transfers that moved nothing", "transfers", transfer("verbs", "verbs", 0, 10, TRANSFER), True),
                ("reads that did not miss", "transfers", transfer("verbs", "verbs", 0, faults=20), True)]
    yield from [("verbs", "ranks", job("verbs"), False), ("shared", "ranks", job("shared", shared=2), False), ("module", "ranks", job("module", 4), False),
                ("verbs in the name of shared", "ranks", job("shared"), True), ("verbs in the name of the module", "ranks", job("module"), True),
                ("the module in the name of verbs", "ranks", job("verbs", 4), True), ("shared in the name of verbs", "ranks", job("verbs", shared=2), True),
                ("fewer ranks", "ranks", job("verbs", ranks=2), True), ("no queue pair", "ranks", job("verbs", rc=0), True),
                ("no memory", "ranks", job("verbs", registered=0), True), ("no connections", "ranks", job("verbs", connections=0), True)]


PARTS = {"transfers": Part(measure_transfers, transfer_objection, lambda r: "%s, %s" % (r["net"], r["half"]), transfer_tables, transfer_verdicts),
         "ranks": Part(measure_ranks, rank_objection, lambda r: "%d per node, %s" % (r["ranks"], r["way"]), rank_tables, rank_verdicts)}
