# SPDX-License-Identifier: BSD-2-Clause
"""What the benchmarks share: messages, programs on this host, tables, figures in documents."""
import os, subprocess, sys
from typing import Callable, NamedTuple

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
       "OMPI_MCA_hwloc_base_binding_policy": "none"}


class Part(NamedTuple):
    """A part of a benchmark; its rows are what measure() returns."""
    measure: Callable    # (runs, quick) -> [row]
    objection: Callable  # (row) -> why its counters are not those of what it is named after, or None
    name: Callable       # (row) -> text
    tables: Callable     # (rows) -> [(title, (head, lines))]
    verdicts: Callable   # (rows) -> [verdict()]


def verdict(what, figure, least=None, most=None):
    """(what, figure, aim, met); a figure that is None, because of an error, meets nothing."""
    aim = ">= %.2f" % least if most is None else "<= %.2f" % most
    return what, figure, aim, figure is not None and (figure >= least if most is None else figure <= most)


def verdict_table(verdicts):
    return ["what", "figure", "aim", ""], [[what, "error" if f is None else "%.2f" % f, aim, "met" if met else "missed"] for what, f, aim, met in verdicts]


def say(text):
    print("%s: %s" % (os.path.relpath(os.path.abspath(sys.argv[0]), TOP), text), file=sys.stderr, flush=True)


def fail(text):
    say(text)
    sys.exit(1)


def run(cmd, env=None, limit=300):
    """The output of a program; its failure ends this one."""
    done = subprocess.run(cmd, env={**os.environ, **MPI, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=limit, text=True, cwd=TOP, stdin=subprocess.DEVNULL)
    if done.returncode:
        fail("%s (%s) ended with %d\n%s%s" % (" ".join(cmd), env, done.returncode, done.stdout[-500:], done.stderr[-2000:]))
    return done.stdout


def host_rig():
    """The rig of a benchmark that runs on this machine, for its result. Its two ranks take a processor each."""
    if len(os.sched_getaffinity(0)) < 2:
        fail("this takes two processors, one for each rank, and may use one")
    return {"machine": "this one", "processors": os.cpu_count(), "allowed": sorted(os.sched_getaffinity(0)), "kernel": os.uname().release}


def rig_line(result):
    """The same for people; results of earlier versions have none."""
    rig = result.get("rig")
    return "Rig: this machine, %d of its %d processors, Linux %s" % (len(rig["allowed"]), rig["processors"], rig["kernel"]) if rig else "Rig: not on record"


def cell(v, form="%.2f"):
    """Two decimals, and one more for values that would have one digit."""
    return "-" if v is None else ("%.3f" if form == "%.2f" and 0 < v < 0.1 else form) % v


def table(title, head, rows):
    widths = [max(len(str(r[i])) for r in rows + [head]) for i in range(len(head))]
    print("\n" + title)
    for r in [head, *rows]:
        print("  " + "  ".join(str(c).ljust(w) if i == 0 else str(c).rjust(w) for i, (c, w) in enumerate(zip(r, widths))))


def markdown(head, rows):
    return ["| %s |" % " | ".join(str(c) for c in r) for r in (head, ["---"] * len(head), *rows)] + [""]


def put_figures(path, name, lines):
    """Put lines between the two marks <!-- NAME --> of a document; nothing happens if it has none."""
    mark = "<!-- %s -->" % name
    with open(path) as f:
        text = f.read()
    if mark not in text:
        return
    before, _, after = text.split(mark)
    with open(path, "w") as f:
        f.write(before + mark + "\n" + "\n".join(lines).rstrip() + "\n" + mark + after)
