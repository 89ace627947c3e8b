# SPDX-License-Identifier: BSD-2-Clause
"""Parts of tests/bench/cluster: latency and applications beside a neighbour, in CQ groups and outside of them (beside.py)."""
import contextlib

import beside
from beside import CHURN, NOISE, SIDES, VICTIMS
from guests import Cluster, app_run, json_lines, middle, missing, say, us
from report import Part, verdict

HEAVY, LIGHT = 100, (1, 16)  # queue pairs of perftest
OBJECTS = 32             # queue pairs and CQs of churn at a time
CHURNED = 1000           # that it has to have created
LOOPED = 2               # seconds of processor time that loops have to have taken
APP_LOAD = 16
APPS = (("sor", ("--size", "512", "--iterations", "60")),)
CHURN_CASES = (("off", "quiet"), ("off", "churn"), ("on", "quiet"), ("on", "churn"), ("on", "loop"))
SAMPLES = {"noise": 64, "churn": 160}
MISSES = ("read miss", "write miss", "upgrade")


def rows_of(found, *names):
    """One row for each key of found, a tuple of these; its turns."""
    return [{**dict(zip(names, key)), "turns": turns} for key, turns in found.items()]


def turn(times, about, of_neighbour):
    return {**times, "about": about, "neighbour": of_neighbour}


def ratio(rows, top, bottom, value):
    """(median, smallest, largest) of the turns' ratios; None where a row has an error, or the bottom is 0."""
    if rows[top]["errors"] or rows[bottom]["errors"]:
        return None
    pairs = [(value(a), value(b)) for a, b in zip(rows[top]["turns"], rows[bottom]["turns"])]
    if not all(b for _, b in pairs):
        return None
    r = [a / b for a, b in pairs]
    return middle(r), round(min(r), 3), round(max(r), 3)


def spread(r):
    return "-" if r is None else "%.2f (%.2f to %.2f)" % r


def median_of(row, value, form=us):
    values = [value(t) for t in row["turns"]]
    return "error" if row["errors"] else form(None if None in values else middle(values))


def percent(v):
    return "-" if v is None else "%.0f %%" % (100 * v)


def two(v):
    return "-" if v is None else "%.2f" % v


# ---- noise and churn -----------------------------------------------------------------------------


def measure_noise(runs, _):
    return measure_loads(runs, (0, HEAVY), SIDES)


def measure_light_noise(runs, _):
    return measure_loads(runs, (0, *LIGHT), SIDES[:2])


def measure_loads(runs, loads, sides):
    found = {}
    if missing("vectors", "noise: completions beside perftest, by processor"):
        return []
    with Cluster(2, cpus=2, places=True) as cluster:
        beside.honour_vectors(cluster)
        for run in range(runs):
            for qps in loads:
                for side in sides:
                    say("noise, turn %d of %d: %d queue pairs of perftest, groups %s" % (run + 1, runs, qps, side))
                    with beside.noise(cluster, side, qps) as of_noise:
                        victims = beside.measure_victims(cluster, side, SAMPLES["noise"])
                    for victim, (times, about) in victims.items():
                        found.setdefault((victim, qps, side), []).append(turn(times, about, of_noise))
    return rows_of(found, "victim", "qps", "side")


def measure_churn(runs, _):
    found = {}
    if missing("vectors", "churn: completions beside churn, by processor"):
        return []
    with Cluster(2, cpus=2, places=True) as cluster:
        beside.honour_vectors(cluster)
        start = {"quiet": lambda side: contextlib.nullcontext({}), "churn": lambda side: beside.churn(cluster, side, OBJECTS),
                 "loop": lambda side: beside.loop(cluster)}
        for run in range(runs):
            for side, what in CHURN_CASES:
                say("churn, turn %d of %d: %s, groups %s" % (run + 1, runs, what, side))
                with start[what](side) as of_neighbour:
                    victims = beside.measure_victims(cluster, side, SAMPLES["churn"])
                for victim, (times, about) in victims.items():
                    found.setdefault((victim, what, side), []).append(turn(times, about, of_neighbour))
    return rows_of(found, "victim", "beside", "side")


def noise_objection(row):
    for t in row["turns"]:
        why = beside.side_objection(row["side"], VICTIMS[row["victim"]], NOISE if row["qps"] else "", t["about"], t["neighbour"])
        if why:
            return why
    return None if row["turns"] else "has no counters"


def churn_objection(row):
    for t in row["turns"]:
        why = beside.side_objection(row["side"], VICTIMS[row["victim"]], CHURN if row["beside"] == "churn" else "", t["about"], t["neighbour"])
        if why:
            return why
        if row["beside"] == "churn" and t["neighbour"]["queue_pairs"] < CHURNED:
            return "churn created %d queue pairs" % t["neighbour"]["queue_pairs"]
        if row["beside"] == "loop" and (t["neighbour"]["cpus"] != [str(beside.NEIGHBOUR_CPU)] or t["neighbour"]["cpu_s"] < LOOPED):
            return "the loops took %.1f s of processors %s" % (t["neighbour"]["cpu_s"], " and ".join(t["neighbour"]["cpus"]))
    return None if row["turns"] else "has no counters"


def beside_rows(rows, load):
    return {(r["victim"], r[load], r["side"]): r for r in rows}


def noise_name(r):
    return "%s, %d queue pairs, groups %s" % (r["victim"], r["qps"], r["side"])


def churn_name(r):
    return "%s, %s, groups %s" % (r["victim"], r["beside"], r["side"])


def normalised(rows, quiet, key):
    """Of the quiet row of the same side: [(median), (99 %)]."""
    victim, _, side = key
    return [ratio(rows, key, (victim, quiet, side), lambda t, part=part: t[part]) for part in ("median", "p99")]


def noise_tables(data):
    rows = beside_rows(data, "qps")
    out = []
    for key, r in rows.items():
        victim, qps, side = key
        program = VICTIMS[victim]
        out.append([victim, qps, side, median_of(r, lambda t: t["median"]), median_of(r, lambda t: t["p99"]),
                    *([spread(x) for x in normalised(rows, 0, key)] if qps else ["-", "-"]),
                    median_of(r, lambda t: beside.ahead(t["about"]["programs"], program), two) if qps else "-",
                    median_of(r, lambda t: beside.on_victims_cpu(t["about"]["programs"], program, NOISE), percent) if qps else "-"])
    yield ("Latency beside perftest with %s queue pairs" % " and ".join(str(n) for n in sorted({r["qps"] for r in data} - {0})),
           (["victim", "queue pairs of perftest", "groups", "us", "99 % us", "of quiet", "99 %, of quiet", "packets ahead, per packet",
             "completions of perftest on the victim's processor"], out))


def churn_tables(data):
    rows = beside_rows(data, "beside")
    out = [[victim, side, what, median_of(r, lambda t: t["median"]), median_of(r, lambda t: t["p99"]),
            *(["-", "-"] if what == "quiet" else [spread(x) for x in normalised(rows, "quiet", (victim, what, side))]),
            median_of(r, lambda t: t["neighbour"]["per_s"]) if what == "churn" else "-"]
           for (victim, what, side), r in rows.items()]
    yield ("Latency beside a process that creates and destroys queue pairs and CQs, and beside one that only computes (loop)",
           (["victim", "groups", "beside", "us", "99 % us", "of quiet", "99 %, of quiet", "queue pairs created per second"], out))


def against_off(rows, victim, side, qps, value):
    """How much of what the noise does without groups is left: (side beside noise / quiet) / (off beside noise / quiet)."""
    keys = [(victim, n, s) for s in (side, "off") for n in (qps, 0)]
    if any(k not in rows or rows[k]["errors"] for k in keys):
        return None
    turns = zip(*[[value(t) for t in rows[k]["turns"]] for k in keys])
    return middle([a / b / (c / d) for a, b, c, d in turns])


def noise_verdicts(data):
    rows = beside_rows(data, "qps")
    worst = HEAVY
    for side in SIDES[1:]:
        for victim, program in VICTIMS.items():
            for part, name in (("median", "median"), ("p99", "99 %")):
                yield verdict("%s, %s, beside %d queue pairs over quiet: groups %s / off" % (victim, name, worst, side),
                              against_off(rows, victim, side, worst, lambda t, part=part: t[part]), most=0.5)
        for victim, program in list(VICTIMS.items())[2:]:
            r = ratio(rows, (victim, worst, side), (victim, worst, "off"), lambda t, p=program: beside.ahead(t["about"]["programs"], p))
            yield verdict("%s: packets ahead, %d queue pairs: groups %s / off" % ("libdsm" if program == beside.DSM else victim, worst, side),
                          r and r[0], most=0.5)


def churn_verdicts(data):
    rows = beside_rows(data, "beside")
    for victim in VICTIMS:
        r = ratio(rows, (victim, "churn", "on"), (victim, "quiet", "on"), lambda t: t["p99"])
        yield verdict("%s, 99 %%, beside churn / quiet, groups on" % victim, r and r[0], most=1.2)


# ---- applications --------------------------------------------------------------------------------


def measure_apps(runs, _):
    found = {}
    if missing("vectors", "apps-noise: applications beside perftest"):
        return []
    with Cluster(2, cpus=2, places=True) as cluster:
        beside.honour_vectors(cluster)
        for run in range(runs):
            for qps in (0, APP_LOAD):
                for side in SIDES[:2]:
                    say("applications beside noise, turn %d of %d: %d queue pairs of perftest, groups %s" % (run + 1, runs, qps, side))
                    with beside.noise(cluster, side, qps) as of_noise:
                        turns = {app: app_turn(cluster, side, app, args) for app, args in APPS}
                    for app, values in turns.items():
                        found.setdefault((app, qps, side), []).append({**values, "neighbour": of_noise})
    return rows_of(found, "app", "qps", "side")


def app_turn(cluster, side, app, args):
    """The run time, and the mean time that a miss waited for its answer."""
    before = beside.read_counters(cluster)
    env = {"DSM_NET": "verbs", "DSM_STATS": "json", **beside.groups(side)}
    values = app_run(cluster, 2, app, args, env, beside.bound(side, beside.VICTIM_CPU))
    cpus = beside.cpus_of(cluster.said)
    stats = next(r for r in json_lines(cluster.said) if "vectors" in r)
    waits = [stats["latency_ns"][m] for m in MISSES if m in stats["latency_ns"]]
    misses = sum(w["count"] for w in waits)
    return {"seconds": values["seconds"], "messages": values["messages"], "misses": misses,
            "miss_us": sum(w["sum"] for w in waits) / misses / 1000 if misses else 0,
            "about": {"cpus": cpus, "vectors": stats["vectors"], "programs": beside.since(before, beside.read_counters(cluster))}}


def app_objection(row):
    for t in row["turns"]:
        why = beside.side_objection(row["side"], row["app"], NOISE if row["qps"] else "", t["about"], t["neighbour"])
        if why:
            return why
        if t["messages"] <= 0 or t["misses"] <= 0:
            return "there were no misses between the guests"
    return None if row["turns"] else "has no counters"


def app_name(r):
    return "%s, %d queue pairs, groups %s" % (r["app"], r["qps"], r["side"])


def app_rows(data):
    return {(r["app"], r["qps"], r["side"]): r for r in data}


def app_tables(data):
    rows = app_rows(data)
    out = []
    for (app, qps, side), r in rows.items():
        quiet = [ratio(rows, (app, qps, side), (app, 0, side), lambda t, what=what: t[what]) for what in ("seconds", "miss_us")] if qps else [None, None]
        out.append([app, qps, side, median_of(r, lambda t: t["seconds"], lambda v: "%.2f" % v), median_of(r, lambda t: t["miss_us"]),
                    *[spread(x) for x in quiet], median_of(r, lambda t: beside.ahead(t["about"]["programs"], app), two) if qps else "-"])
    yield ("Applications beside perftest, two guests",
           (["application", "queue pairs of perftest", "groups", "seconds", "us per miss", "seconds, of quiet", "per miss, of quiet",
             "packets ahead, per packet"], out))


def app_verdicts(data):
    rows = app_rows(data)
    for app in dict.fromkeys(r["app"] for r in data):
        on, off = (app, APP_LOAD, "on"), (app, APP_LOAD, "off")
        r = ratio(rows, off, on, lambda t: t["seconds"])
        yield verdict("%s beside perftest, throughput: groups on / off" % app, r and r[0], least=1.04)
        r = ratio(rows, on, off, lambda t: t["miss_us"])
        yield verdict("%s beside perftest, time per miss: groups on / off" % app, r and r[0], most=0.95)


# ---- counters of one side in the name of another -------------------------------------------------


def counted(victim, cpus, neighbour="", neighbour_cpus=(), allowed="0-1", groups=None):
    """What a measurement reports of a victim."""
    programs = {victim: {"packets": 500, "ahead": 1000, "cpus": {"node0": list(cpus)}}}
    if neighbour:
        programs[neighbour] = {"packets": 5000, "ahead": 10, "cpus": {"node0": list(neighbour_cpus)}}
    return {"cpus": [allowed], "programs": programs,
            **({} if groups is None else {"vectors": [{"class": name, "vector": v, "completions": 500} for name, v in groups]})}


def samples():
    """[(name, part, rows, refused)]"""
    one, two_groups = (("all", 0), ("all", 1)), (("coherence+data+", 0), ("bulk", 1))
    here, there = (1000, 20), (20, 1000)
    free, bound = {"cpus": ["0-1"]}, {"cpus": ["1"]}

    def noise_row(side, about, neighbour=free, qps=16):
        return [{"victim": "lock", "qps": qps, "side": side, "turns": [{"median": 1, "p99": 2, "about": about, "neighbour": neighbour}]}]

    def churn_row(side, about, created=0, what="churn", cpus=("0-1",), cpu_s=0):
        of = {"cpus": list(cpus), "queue_pairs": created, "per_s": 100, "cpu_s": cpu_s}
        return [{"victim": "lock", "beside": what, "side": side, "turns": [{"median": 1, "p99": 2, "about": about, "neighbour": of}]}]

    def app_row(side, misses=100, about=None):
        about = about or counted("sor", here, NOISE, there, groups=two_groups)
        return [{"app": "sor", "qps": 16, "side": side,
                 "turns": [{"seconds": 1, "messages": 100, "misses": misses, "miss_us": 900, "about": about, "neighbour": free}]}]
    off, on = counted("noise", here, NOISE, here, groups=one), counted("noise", here, NOISE, there, groups=two_groups)
    exclusive = {**on, "cpus": ["0"]}
    quiet = counted("noise", here, groups=two_groups)
    yield from [("off", "noise", noise_row("off", off), False), ("on", "noise", noise_row("on", on), False),
                ("exclusive", "noise", noise_row("exclusive", exclusive, bound), False), ("quiet", "noise", noise_row("on", quiet, {}, 0), False),
                ("off in the name of on", "noise", noise_row("on", off), True), ("on in the name of off", "noise", noise_row("off", on), True),
                ("on in the name of exclusive", "noise", noise_row("exclusive", on, bound), True),
                ("exclusive in the name of on", "noise", noise_row("on", exclusive), True),
                ("exclusive, the noise unbound", "noise", noise_row("exclusive", exclusive, free), True),
                ("on, without noise", "noise", noise_row("on", quiet), True), ("quiet, with noise", "noise", noise_row("on", on, {}, 0), True),
                ("on, one group of libdsm", "noise", noise_row("on", counted("noise", here, NOISE, there, groups=one)), True),
                ("off, two groups of libdsm", "noise", noise_row("off", counted("noise", here, NOISE, here, groups=two_groups)), True),
                ("on, groups share a vector", "noise",
                 noise_row("on", counted("noise", here, NOISE, there, groups=(two_groups[0], ("bulk", 0)))), True),
                ("on, the noise on the victim's processor", "noise", noise_row("on", counted("noise", here, NOISE, here, groups=two_groups)), True),
                ("off, the noise elsewhere", "noise", noise_row("off", counted("noise", here, NOISE, there, groups=one)), True),
                ("on, the victim elsewhere", "noise", noise_row("on", counted("noise", there, NOISE, there, groups=two_groups)), True),
                ("on, victim and noise exchanged", "noise", noise_row("on", counted("noise", there, NOISE, here, groups=two_groups)), True),
                ("off, the victim on both processors", "noise", noise_row("off", counted("noise", (500, 500), NOISE, here, groups=one)), True),
                ("few completions of the victim", "noise", noise_row("on", counted("noise", (50, 0), NOISE, there, groups=two_groups)), True),
                ("the victim was not counted", "noise", noise_row("on", counted("noise", (0, 0), NOISE, there, groups=two_groups)), True)]
    busy = counted("noise", here, CHURN, there, groups=two_groups)
    yield from [("churn", "churn", churn_row("on", busy, 2000), False), ("quiet", "churn", churn_row("on", quiet, what="quiet"), False),
                ("a loop", "churn", churn_row("on", quiet, what="loop", cpus=("1",), cpu_s=9), False),
                ("churn that creates little", "churn", churn_row("on", busy, 10), True),
                ("churn on the victim's processor", "churn", churn_row("on", counted("noise", here, CHURN, here, groups=two_groups), 2000), True),
                ("churn that did not run", "churn", churn_row("on", quiet, 2000), True),
                ("churn in the quiet row", "churn", churn_row("on", busy, 2000, "quiet"), True),
                ("churn in the row of the loop", "churn", churn_row("on", busy, 2000, "loop", ("1",), 9), True),
                ("a loop on any processor", "churn", churn_row("on", quiet, what="loop", cpu_s=9), True),
                ("a loop that did not run", "churn", churn_row("on", quiet, what="loop", cpus=("1",)), True)]
    yield from [("an application", "apps-noise", app_row("on"), False), ("one without misses", "apps-noise", app_row("on", 0), True),
                ("one of the other side", "apps-noise", app_row("off"), True),
                ("one without noise", "apps-noise", app_row("on", about=counted("sor", here, groups=two_groups)), True)]


PARTS = {"noise": Part(measure_noise, noise_objection, noise_name, noise_tables, noise_verdicts),
         "noise-light": Part(measure_light_noise, noise_objection, noise_name, noise_tables, lambda rows: []),
         "churn": Part(measure_churn, churn_objection, churn_name, churn_tables, churn_verdicts),
         "apps-noise": Part(measure_apps, app_objection, app_name, app_tables, app_verdicts)}
