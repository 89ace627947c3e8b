# SPDX-License-Identifier: BSD-2-Clause
"""The rig of a benchmark between guests: what a part needs, what the user asks for, what it was, and which do not fit each other.

A rig holds still what the host would decide otherwise: the core of each processor, the network devices, the processors of their
interrupts, the clock (docs/cluster.md). Every part names what it needs. The user may ask for more, not for something else.
"""
import os
from typing import NamedTuple

TIME, INSTRUCTIONS = "auto", "icount"  # what a part measures: the accelerator of its guests
LIST = "a processor for each NIC, as 0,1"


class Refused(Exception):
    """A rig that a part cannot use."""


class Need(NamedTuple):
    """Of a part."""
    nodes: int
    cpus: int = 1
    memory: int = 1024
    accel: str = TIME
    pin: bool = False      # it means nothing unless processors are pinned
    nics: object = 1       # network devices that carry RDMA; None: any number
    irq_cpus: tuple = ()   # their interrupts have to be there
    places: bool = False   # it moves interrupts itself


class Asked(NamedTuple):
    """By the user."""
    accel: object = None
    pin: bool = False
    nics: object = None
    irq_cpus: tuple = ()


def add_arguments(p):
    p.add_argument("--pin", action="store_true", help="guests: processor K of each runs on core K of this machine")
    p.add_argument("--nics", type=int, metavar="N", help="guests: network devices that carry RDMA (what the part needs)")
    p.add_argument("--irq-cpus", metavar="A,B", default="", help="guests: the processor for the interrupts of each network device")
    p.add_argument("--accel", choices=("auto", "tcg", "kvm", "icount"), help="guests: like scripts/cluster --accel")


def asked(a):
    """What the options say."""
    words = a.irq_cpus.split(",") if a.irq_cpus else []
    if not all(word.isdigit() for word in words):
        raise Refused("--irq-cpus: %s, not %s" % (LIST, a.irq_cpus))
    return Asked(None if a.accel == "auto" else a.accel, a.pin, a.nics, tuple(map(int, words)))


def fit(need, asked, cores=None):
    """The rig for a part: a Need with what the user asks for. Refused: it would not measure what it is named after."""
    cores = cores or len(os.sched_getaffinity(0))
    if need.accel != INSTRUCTIONS and asked.accel == INSTRUCTIONS:
        raise Refused("this measures time, and with --accel icount the clock counts instructions")
    if need.nics is not None and asked.nics not in (None, need.nics):
        raise Refused("this takes %d NIC%s, not --nics %d" % (need.nics, "s" if need.nics > 1 else "", asked.nics))
    if asked.irq_cpus and need.places:
        raise Refused("this places the interrupts itself: no --irq-cpus")
    if need.irq_cpus and asked.irq_cpus not in ((), need.irq_cpus):
        raise Refused("this takes the interrupts on processors %s, not --irq-cpus %s" % (numbers(need.irq_cpus), numbers(asked.irq_cpus)))
    rig = need._replace(accel=need.accel if need.accel == INSTRUCTIONS else asked.accel or TIME, pin=need.pin or asked.pin,
                        nics=asked.nics or need.nics or 1, irq_cpus=need.irq_cpus or asked.irq_cpus)
    if rig.irq_cpus and (len(rig.irq_cpus) != rig.nics or max(rig.irq_cpus) >= rig.cpus):
        raise Refused("%d NICs and %d processors, and --irq-cpus %s: %s" % (rig.nics, rig.cpus, numbers(rig.irq_cpus), LIST))
    if rig.pin and cores < rig.cpus:
        raise Refused("this machine has %d core%s to pin the %d processors of a guest to" % (cores, "s" if cores > 1 else "", rig.cpus))
    return rig


def numbers(values):
    return ",".join(map(str, values))


def options(rig):
    """For scripts/cluster up."""
    return ["-n", str(rig.nodes), "--cpus", str(rig.cpus), "--memory", str(rig.memory), "--accel", rig.accel, *(["--pin"] if rig.pin else []),
            *(["--nics", str(rig.nics)] if rig.nics > 1 else []), *(["--irq-cpus", numbers(rig.irq_cpus)] if rig.irq_cpus else [])]


def of_status(status):
    """What the guests are, by `scripts/cluster status --json`."""
    return {"guests": status["nodes"], "processors": status["cpus"], "accel": status["accel"], "kernel": status["kernel"], "pinned": status["pinned"],
            "nics": status["nics"], "irq_cpus": status["irq_cpus"]}


def objection(rig, was):
    """Why guests are not the rig that they were to be, or None."""
    wanted = {"guests": rig.nodes, "processors": rig.cpus, "pinned": rig.pin, "nics": rig.nics, "irq_cpus": list(rig.irq_cpus),
              "accel": was["accel"] if rig.accel == TIME and was["accel"] != INSTRUCTIONS else rig.accel}
    return next(("%s: %s, not %s" % (what, was[what], value) for what, value in wanted.items() if was[what] != value), None)


def text(rig):
    """For people; rig: as of_status() gives it, or {"hosts": names}."""
    if "hosts" in rig:
        return "real machines: " + " ".join(rig["hosts"])
    several = "s" if rig["nics"] > 1 else ""
    placed = ", interrupts on %s" % numbers(rig["irq_cpus"]) if rig["irq_cpus"] else ""
    return "%d guest%s of %d processor%s, %s, %s, %d NIC%s%s" % (rig["guests"], "s" if rig["guests"] > 1 else "", rig["processors"],
                                                                "s" if rig["processors"] > 1 else "", rig["accel"],
                                                                "pinned" if rig["pinned"] else "not pinned", rig["nics"], several, placed)


def note(result, parts, was):
    """Put into a result in which rigs these parts have just been measured."""
    for part in parts:
        result.setdefault("rigs", {})[part] = [rig for i, rig in enumerate(was) if rig not in was[:i]]


def joined(before, now):
    """Why turns of these two rigs are not to be put together, or None."""
    return None if [text(rig) for rig in before] == [text(rig) for rig in now] else \
        "the turns before ran in another rig: %s" % ("; ".join(map(text, before)) or "not on record")


def rows(result, parts):
    """(head, rows) of a table: the rig of each part."""
    of = result.get("rigs", {})
    return ["part", "rig"], [[part, "; ".join(map(text, of[part])) if of.get(part) else "not on record"] for part in parts]


def lines(result, parts):
    """For a document: parts by rig."""
    found = {}
    for part, rig in rows(result, parts)[1]:
        found.setdefault(rig, []).append(part)
    return ["Rigs:", "", *["- %s: %s" % (", ".join(some), rig) for rig, some in found.items()], ""] if found else []


def samples():
    """[(name, refused, call)]: what fit() and its like have to take and to refuse."""
    two = Need(2, cpus=2)
    both = Need(2, cpus=2, pin=True, nics=2, irq_cpus=(0, 1))
    count = Need(1, accel=INSTRUCTIONS)
    was = {"guests": 2, "processors": 2, "accel": "tcg", "kernel": "6.1", "pinned": True, "nics": 2, "irq_cpus": [0, 1]}
    free = {**was, "pinned": False}

    def differs(why):
        if why:
            raise Refused(why)
    yield from [("rig: as it is", False, lambda: fit(two, Asked(), 2)), ("rig: pinned", False, lambda: fit(two, Asked(pin=True), 2)),
                ("rig: pinned, one core", True, lambda: fit(two, Asked(pin=True), 1)),
                ("rig: needs to be pinned, one core", True, lambda: fit(both, Asked(), 1)),
                ("rig: time by icount", True, lambda: fit(two, Asked(accel="icount"), 2)),
                ("rig: instructions by icount", False, lambda: fit(count, Asked(accel="icount"), 2)),
                ("rig: instructions, time elsewhere by kvm", False, lambda: fit(count, Asked(accel="kvm"), 2)),
                ("rig: two NICs for one", True, lambda: fit(two, Asked(nics=2), 2)), ("rig: one NIC for two", True, lambda: fit(both, Asked(nics=1), 2)),
                ("rig: any number of NICs", False, lambda: fit(two._replace(nics=None), Asked(nics=2, irq_cpus=(0, 1)), 2)),
                ("rig: interrupts of one of two NICs", True, lambda: fit(two._replace(nics=None), Asked(nics=2, irq_cpus=(0,)), 2)),
                ("rig: interrupts on no processor", True, lambda: fit(two, Asked(irq_cpus=(2,)), 2)),
                ("rig: interrupts that it places itself", True, lambda: fit(two._replace(places=True), Asked(irq_cpus=(0,)), 2)),
                ("rig: other interrupts than it needs", True, lambda: fit(both, Asked(irq_cpus=(1, 0)), 2)),
                ("rig: guests as wanted", False, lambda: differs(objection(fit(both, Asked(), 2), was))),
                ("rig: guests that are not pinned", True, lambda: differs(objection(fit(both, Asked(), 2), free))),
                ("rig: guests that count", True, lambda: differs(objection(fit(both, Asked(), 2), {**was, "accel": "icount"}))),
                ("rig: interrupts as the kernel placed them", True, lambda: differs(objection(fit(both, Asked(), 2), {**was, "irq_cpus": []}))),
                ("rig: more turns", False, lambda: differs(joined([was], [was]))), ("rig: more turns in another", True, lambda: differs(joined([was], [free])))]


def refuses(call):
    try:
        call()
    except Refused:
        return True
    return False
