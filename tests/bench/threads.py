# SPDX-License-Identifier: BSD-2-Clause
"""Programs with threads as they are: each against its own build without libdsm, in turns.

The time is that of main() (tests/bench/threads/main.c), without the start and the end of the process or job. A run counts only if it
prints what the program without libdsm prints, and if its counters say that it ran as claimed: so many ranks, nodes, misses, lock
calls, and processor time on each rank.
"""
import configparser, importlib.util, json, os, pathlib, random, shutil, statistics, sys, tempfile, types
from importlib.machinery import SourceFileLoader

from report import TOP, cell, fail, say

HERE = pathlib.Path(TOP, "tests/bench/threads")
THREADS = 2
LIMIT = 120  # seconds for one run
# Program -> flags of the compiler, for one node and for two: two nodes have enough to do with less.
PROGRAMS = {
    "bank.c": ("-DTRANSFERS=5000000", "-DTRANSFERS=2000"),
    "objects.cc": ("-DENTRIES=4000000", "-DENTRIES=100000"),
    "queue.c": ("-DITEMS=200000", "-DITEMS=2000"),
    "steal.c": ("-DN=2000000", "-DN=200000"),
    "wavefront.c": ("-DN=7920 -DSTEPS=20000", "-DN=2400 -DSTEPS=100"),
    "words.c": ("-DLINES=40000", "-DLINES=1000"),
}
# The same with arguments, for programs of ANL macros.
SUITE = {"kdtree": ("{threads} 200", "{threads} 2"), "octree": ("{threads} 16384 27", "{threads} 16384 27"),
         "tasks": ("{threads} 2000000", "{threads} 200000"), "transpose": ("{threads} 1024 40", "{threads} 256 4")}
# Calls of locks that a program makes at least, with two nodes: what the library counts there must
# not be less. wavefront has semaphores.
LOCK_CALLS = {"bank": 11000, "objects": 200000, "queue": 4000, "steal": 1000, "wavefront": 0, "words": 40000, "kdtree": 896, "octree": 650000,
              "tasks": 3000, "transpose": 2}
LOCKS = {"uncontended": "lock + unlock, uncontended, ns", "section": "contended section, ns",
         "handoff_soon": "hand-off to a thread that waits since 2 us, us", "handoff_late": "the same, since 200 us, us"}
TRANSFERS = {"clock": "clock_gettime()", "read_1": "read of 1 byte", "read_4k": "read of 4 KiB", "read_16k": "read of 16 KiB", "read_64k": "read of 64 KiB",
             "read_1m": "read of 1 MiB", "write_4k": "write of 4 KiB", "write_16k": "write of 16 KiB", "write_64k": "write of 64 KiB",
             "write_1m": "write of 1 MiB", "pipe_48k": "48 KiB into a pipe and back"}
AIMS = {"uncontended": 1.5, "section": None, "handoff_soon": 2, "handoff_late": 2}
BY_LOCKS = 1.5 # aim: times of one node, by the locks of two nodes alone


def load_anl():
    """scripts/anl as a module: how programs are built and run."""
    loader = SourceFileLoader("anl", os.path.join(TOP, "scripts/anl"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("anl", loader))
    loader.exec_module(module)
    return module


anl = load_anl()


class Plain(anl.Program):
    """One source file without macros, its input from a file."""

    def __init__(self, options, name, source, flags, input_file=os.devnull):
        ini = configparser.ConfigParser(interpolation=None)
        ini["DEFAULT"] = {"input": str(input_file)}
        super().__init__(options, ini, options.dir)
        self.name, self.source, self.flags = name, source, flags

    def build_in(self, work, libs):
        self.work = work / self.name
        self.work.mkdir(parents=True)
        anl.build_both([self.source], self.work, [f"-DTHREADS={THREADS}", *self.flags.split()], libs)


class Suite(anl.Program):
    """A folder of apps/anl with other arguments."""

    def __init__(self, options, name, arguments):
        ini = configparser.ConfigParser(interpolation=None)
        ini["DEFAULT"] = {"arguments": arguments, "ignore": "^took"}
        super().__init__(options, ini, options.dir / name)

    def build_in(self, work, libs):
        self.ini["libs"] = " ".join(map(str, libs))
        self.build(anl.command([anl.BUILD / "dsm-cc", "--showme:m4"], "dsm-cc").strip(), work)


def command(program, way, *words):
    """ways: own, node (ranks of one node), rank (each rank a node)."""
    if way == "own":
        return [program.work / "own", *words]
    return [anl.BUILD / "dsmrun", "-q", "-n", THREADS, "-t", 1, "--nodes", "host" if way == "node" else "rank", program.work / "dsm", *words]


def once(program, way, *words, alone=False):
    """What the program printed, and the row of main.c. alone: it has one thread, so one rank has nothing to do."""
    _, out, _, _ = program.run(command(program, way, *words), THREADS)
    *lines, last = out.splitlines()
    row = json.loads(last)
    nodes, ranks = {"own": (0, 1), "node": (1, THREADS), "rank": (THREADS, THREADS)}[way]
    if (row["nodes"], row["ranks"]) != (nodes, ranks) or (row["misses"] > 0) != (way == "rank") or \
            (not alone and min(row["cpu_us"]) * 100 < max(row["cpu_us"])):
        fail("threads: %s: not a run of %s: %s" % (program.name, way, row))
    if row["lock_waits"] > row["locks"] or (row["lock_waits"] > 0) != (max(row["lock_us"]) > 0):
        fail("threads: %s, %s: the counters of locks contradict each other: %s" % (program.name, way, row))
    return program.lines("\n".join(lines)), row


def in_turns(program, ways, runs):
    """{way: rows}. All print the same."""
    rows, printed = {way: [] for way in ways}, None
    for _ in range(runs):
        for way in ways:
            out, row = once(program, way)
            if printed is not None and out != printed:
                fail("threads: %s: %s prints %s, another way %s" % (program.name, way, dict(out), dict(printed)))
            printed = out
            rows[way].append(row)
    return rows


def spread(values):
    return [statistics.median(values), min(values), max(values)]


def seconds(rows):
    return statistics.median(r["us"] for r in rows) / 1e6


def measure_program(name, one_node, two_nodes, runs):
    say("threads: %s" % name)
    big = in_turns(one_node, ("own", "node"), runs)
    small = in_turns(two_nodes, ("node", "rank"), max(runs // 2, 1))
    misses = sum(r["misses"] for r in small["rank"])
    for r in small["rank"]:
        if r["locks"] < LOCK_CALLS[name]:
            fail("threads: %s: %d calls of locks were counted, of %d at least" % (name, r["locks"], LOCK_CALLS[name]))
    return {"program": name, "own_s": seconds(big["own"]), "node_s": seconds(big["node"]),
            "ratio": spread([n["us"] / o["us"] for o, n in zip(big["own"], big["node"])]),
            "cpu_ratio": spread([sum(n["cpu_us"]) / sum(o["cpu_us"]) for o, n in zip(big["own"], big["node"])]),
            "small_node_s": seconds(small["node"]), "small_rank_s": seconds(small["rank"]),
            "misses": statistics.median(r["misses"] for r in small["rank"]), "locks": statistics.median(r["locks"] for r in small["rank"]),
            "lock_waits": statistics.median(r["lock_waits"] for r in small["rank"]),
            "by_locks": spread([1 + max(r["lock_us"]) / n["us"] for n, r in zip(small["node"], small["rank"])]),
            "repeated_percent": 100 * sum(r["repeated"] for r in small["rank"]) / misses}


def locks_once(program, way, kind):
    out, row = once(program, way, kind)
    values = json.loads(next(iter(out)))
    # futex_sync.c counts no locks: its state is in the mutex.
    if row["locks"] != (values["acquired"] if kind == "dsm" else 0):
        fail("threads: locks: %s of %s: %d were counted, not %d" % (kind, way, row["locks"], values["acquired"]))
    return values


def measure_locks(program, runs):
    say("threads: locks")
    sides = {"pthread_mutex": ("own", "pthread"), "libdsm-pthread": ("node", "pthread"), "dsm_mutex_t": ("node", "dsm")}
    turns = [{side: locks_once(program, *how) for side, how in sides.items()} for _ in range(runs)]
    return [{"row": row, "aim": AIMS[row], "us": {s: statistics.median(t[s][row] for t in turns) for s in sides},
             "ratios": {s: spread([t[s][row] / t["pthread_mutex"][row] for t in turns]) for s in list(sides)[1:]}} for row in LOCKS]


def transfers_once(program, way):
    out, _ = once(program, way, alone=True)
    values = json.loads(next(iter(out)))
    if values["shared"] != (way == "rank"):
        fail("threads: transfers: %s: the memory of the calls is%s shared" % (way, "" if values["shared"] else " not"))
    return values


def measure_transfers(program, runs):
    say("threads: system calls")
    turns = [{way: transfers_once(program, way) for way in ("own", "node", "rank")} for _ in range(runs)]
    return [{"row": row, "us": {way: statistics.median(t[way][row] for t in turns) for way in turns[0]},
             "ratios": {way: spread([t[way][row] / t["own"][row] for t in turns]) for way in ("node", "rank")}} for row in TRANSFERS]


def write_text(path):
    """For words.c: 20 words in each of 40,000 lines."""
    rng = random.Random(1)
    with open(path, "w") as f:
        for _ in range(40000):
            f.write(" ".join("w%d" % rng.randrange(3000) for _ in range(20)) + "\n")


def measure(runs):
    # mpirun's binding is dsmrun's to choose, as for a user.
    os.environ.pop("OMPI_MCA_hwloc_base_binding_policy", None)
    work = pathlib.Path(tempfile.mkdtemp(prefix="dsm-bench."))
    try:
        around = work / "main.o"
        anl.command(["cc", "-O2", "-I", pathlib.Path(TOP, "libdsm/include"), "-c", HERE / "main.c", "-o", around], "cc")
        libs = [around, "-Wl,--wrap=main,--wrap=exit"]
        write_text(work / "text")
        plain = types.SimpleNamespace(dir=pathlib.Path(TOP, "apps/threads"), timeout=LIMIT)
        suite = types.SimpleNamespace(dir=pathlib.Path(TOP, "apps/anl"), timeout=LIMIT)
        pairs = {file.split(".")[0]: [Plain(plain, "%s-%d" % (file, i), plain.dir / file, flags, work / "text") for i, flags in enumerate(both)]
                 for file, both in PROGRAMS.items()}
        pairs.update({name: [Suite(suite, name, arguments) for arguments in both] for name, both in SUITE.items()})
        locks, transfers = (Plain(plain, name, HERE / (name + ".c"), "") for name in ("locks", "transfers"))
        say("threads: building")
        for i in range(2):
            for pair in pairs.values():
                pair[i].build_in(work / str(i), libs)
        locks.build_in(work, libs)
        transfers.build_in(work, libs)
        return {"programs": [measure_program(name, *pair, runs) for name, pair in pairs.items()], "locks": measure_locks(locks, runs),
                "transfers": measure_transfers(transfers, runs)}
    except anl.Failure as e:
        fail("threads: %s" % e)
    finally:
        shutil.rmtree(work)


HEAD = ["program", "pthreads s", "2 ranks, one node s", "ratio", "ratio of processor time", "smaller: one node s", "2 nodes s", "misses", "repeated",
        "lock calls", "of them waited", "by locks alone"]
TRANSFER_HEAD = ["system call", "without libdsm us", "one node us", "ratio", "nodes us", "ratio"]
LOCK_HEAD = ["operation", "pthread_mutex", "libdsm-pthread", "ratio", "dsm_mutex_t", "ratio", "aim"]


def spread_cell(v):
    return "%.2f (%.2f-%.2f)" % tuple(v)


def program_cells(r):
    return [r["program"], cell(r["own_s"], "%.3f"), cell(r["node_s"], "%.3f"), spread_cell(r["ratio"]), "%.2f" % r["cpu_ratio"][0],
            cell(r["small_node_s"], "%.3f"), cell(r["small_rank_s"], "%.3f"), "%d" % r["misses"], "%.0f %%" % r["repeated_percent"],
            "%d" % r["locks"], "%d" % r["lock_waits"], spread_cell(r["by_locks"])]


def by_locks_text(programs):
    missed = [r["program"] for r in programs if r["by_locks"][0] > BY_LOCKS]
    return "By locks alone, the aim is %g. %s." % (BY_LOCKS, "It is missed by " + ", ".join(missed) if missed else "No program misses it")


def lock_cells(r):
    scale = 1000 if LOCKS[r["row"]].endswith("ns") else 1
    us = {s: cell(v * scale) for s, v in r["us"].items()}
    return [LOCKS[r["row"]], us["pthread_mutex"], us["libdsm-pthread"], spread_cell(r["ratios"]["libdsm-pthread"]), us["dsm_mutex_t"],
            spread_cell(r["ratios"]["dsm_mutex_t"]), cell(r["aim"], "%g")]


def transfer_cells(r):
    us = {way: cell(v) for way, v in r["us"].items()}
    return [TRANSFERS[r["row"]], us["own"], us["node"], spread_cell(r["ratios"]["node"]), us["rank"], spread_cell(r["ratios"]["rank"])]
