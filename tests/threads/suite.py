#!/usr/bin/python3 -B
# SPDX-License-Identifier: BSD-2-Clause
"""Functions of scripts/anl that need no program: what its report says of numbers. Prints "ok"."""
import importlib.util
import pathlib
from importlib.machinery import SourceFileLoader

LOADER = SourceFileLoader("anl", str(pathlib.Path(__file__).resolve().parents[2] / "scripts/anl"))
SPEC = importlib.util.spec_from_loader("anl", LOADER)
anl = importlib.util.module_from_spec(SPEC)
LOADER.exec_module(anl)


def check(got, expected):
    assert got == expected, f"{got} instead of {expected}"


def report(**times):
    """Of two threads in a part of 1,000 us, which compute for the rest of their time."""
    numbers = {"us": 1000, "threads": 2, "thread_us": 2000, **times}
    waits = sum(us for name, us in numbers.items() if name.endswith("_us") and name not in ("thread_us", "kernel_us", "user_us"))
    return {"user_us": max(numbers["thread_us"] - waits - numbers.get("kernel_us", 0), 0), **numbers}


def change(stats=None, **times):
    parts, _ = anl.shares(report(**times), stats or {})
    return anl.advice(parts, report(**times), stats or {})


# A speed-up is not 0.00 because it is small.
check([anl.digits(v) for v in (12.345, 1, 0.5, 0.00123)], ["12.35", "1.00", "0.5", "0.00123"])
check(anl.spread([0.2, 0.1, 0.4]), "0.200 (0.100-0.400)")
check(anl.spread([0.0]), "-")

# All time is attributed, and what is too much is not hidden.
parts, whole = anl.shares(report(lock_us=200, barrier_us=400, read_us=100, kernel_us=60), {})
check({name: round(share) for name, share in parts.items() if share}, {"computing": 62, "barriers": 20, "locks": 10, "read faults": 5, "kernel": 3})
check(round(whole), 100)
check(anl.shares_text(parts, whole), "computing 62 %, barriers 20 %, locks 10 %")
parts, whole = anl.shares(report(barrier_us=2340), {})
check(anl.shares_text(parts, whole), "barriers 117 %; of 117 %")
parts, whole = anl.shares(report(thread_us=1400, user_us=800), {})
check({name: round(share) for name, share in parts.items() if share}, {"computing": 40, "no processor": 30, "no thread": 30})
check(anl.shares_text({}, 0), "-")

# One line says what to change.
HOT = {"read_faults": 60, "write_faults": 40, "sharing": [{"name": "(heap)", "site": "main.C:7", "faults": 80}]}
check(anl.advice({}, {}, {}), "mark the parallel part: CREATE and WAIT_FOR_END, or the ROI macros")
check(change(), "nothing: it computes")
check(change(locks=100, lock_us=600), "take locks less often, or more of them: 100 waits of 6.0 us")
check(change(barriers=10, barrier_us=600), "fewer barriers, or equal work between them: 10 waits of 60.0 us")
check(change(kernel_us=900), "touch less fresh memory: allocate once, and reuse it")
check(change(HOT, read_us=600), "let the thread that uses data initialise it, or place it there (NU_MALLOC): (heap) allocated at main.C:7, 80 % of the faults")
check(change(HOT, write_us=600), "let one thread write what lies in one page: (heap) allocated at main.C:7, 80 % of the faults")
check(change({**HOT, "repeated_faults": 50}, write_us=600),
      "keep apart what different threads write (false sharing): (heap) allocated at main.C:7, 80 % of the faults")
print("ok")
