# SPDX-License-Identifier: BSD-2-Clause
"""Bad news in the kernel log of a guest."""
import re

BAD = re.compile(r'''
    BUG: | WARNING: | \bOops\b | kernel\ BUG\ at | Kernel\ panic | general\ protection\ fault | Internal\ error
    | Unable\ to\ handle\ kernel | Call\ Trace: | cut\ here
    | blocked\ for\ more\ than | hung_task | soft\ lockup | hard\ LOCKUP
    | detected\ (?:expedited\ )?stalls | self-detected\ stall | rcu_\w+\ kthread\ (?:starved|timer)
    | possible\ (?:circular|recursive)\ locking | inconsistent\ lock\ state | irq\ lock\ inversion | lock\ held\ when
    | suspicious\ RCU\ usage | scheduling\ while\ atomic | sleeping\ function\ called | bad\ unlock\ balance
    | possible\ irq\ lock | held\ lock\ freed | DEBUG_LOCKS_WARN_ON | unpaired
    | KASAN: | KCSAN: | UBSAN: | KFENCE: | Bad\ page\ (?:state|map) | refcount_t: | list_(?:add|del)\ corruption
    | (?:Objects|Slab).*remaining | new\ suspected\ memory\ leaks | detected\ leak | memory\ leak
    | unregister_netdevice:\ waiting | page\ allocation\ failure | Out\ of\ memory | oom-kill | invoked\ oom-killer
    | Unbalanced | ODEBUG: | Failed\ to\ destroy
    | cluster:\ init:
''', re.VERBOSE)
# What emulation and Debian's kernel say of themselves.
HARMLESS = re.compile(r'unsafe_memory|clocksource: timekeeping watchdog')

BEFORE, AFTER, MOST = 3, 40, 120


def excerpts(text):
    """The lines around each piece of bad news, or nothing."""
    lines = text.replace('\r', '').splitlines()
    wanted = set()
    for i, line in enumerate(lines):
        if BAD.search(line) and not HARMLESS.search(line):
            wanted.update(range(max(0, i - BEFORE), min(len(lines), i + AFTER)))
    return [lines[i] for i in sorted(wanted)][:MOST]
