# SPDX-License-Identifier: BSD-2-Clause
"""
dsm-gdb.py - commands for gdb, in a rank that is stopped or in a core file: (gdb) source scripts/dsm-gdb.py

  dsm block ADDRESS   the page state and directory entry of the block at an address of the window, as this node has them
  dsm slot [NUMBER]   a request slot; without a number, all slots in which a thread sleeps
  dsm lock ADDRESS    the mutex, lock or other object whose handle is at an address: its home, and this node's record of it

They need the symbols of libdsm (built with -g, the default), and read the memory of the node only: no function of the program runs.
"""
import gdb

PAGE_SHIFT = 12
UNIT_SHIFT = 21


def evaluate(text):
    return gdb.parse_and_eval(text)


def named(kind, value):
    """The name of a value of an enum, without its number."""
    return str(value.cast(gdb.lookup_type('enum ' + kind)))


def integers(value):
    """Its members that are integers, also those of anonymous structures and unions in it."""
    for f in value.type.strip_typedefs().fields():
        if not f.name:
            yield from integers(value[f])
        elif f.type.strip_typedefs().code == gdb.TYPE_CODE_INT:
            yield f.name, int(value[f])


def fields(value, skip=()):
    return ', '.join(f'{name} {number}' for name, number in integers(value) if name not in skip and not name.startswith('pad'))


def job():
    value = evaluate('job')
    if not int(value['base']):
        raise gdb.GdbError('this process is not a rank of a job, or not yet')
    return value


class Dsm(gdb.Command):
    """What libdsm knows about memory, requests and locks: dsm block, dsm slot, dsm lock."""

    def __init__(self):
        super().__init__('dsm', gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)


class Block(gdb.Command):
    """dsm block ADDRESS: the page state and the directory entry of a block, at this node."""

    def __init__(self):
        super().__init__('dsm block', gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, text, from_tty):
        j = job()
        address = int(evaluate(text).cast(gdb.lookup_type('unsigned long')))
        off = address - int(j['base'])
        if not 0 <= off < int(j['set']['space']):
            raise gdb.GdbError(f'{address:#x} is not in the window of libdsm, which begins at {int(j["base"]):#x}')
        region = int(j['mem']['regions'][off >> UNIT_SHIFT])
        size, name = 1 << PAGE_SHIFT, 'the heap' if off < int(j['heap']) else 'no region'
        if region:
            r = j['regions'][region - 1]
            size, name = int(r['block_size']) or size, f'region "{r["name"].string()}"'
        block = (off & ~(size - 1)) >> PAGE_SHIFT
        print(f'block {block}: {size} bytes at {int(j["base"]) + (block << PAGE_SHIFT):#x}, {name}; node {int(j["node"])} of {int(j["nodes"])}')
        page = j['mem']['pages'][block]
        home = int(page['home'])
        print(f'page: {named("page_state", page["state"])}, home {home - 1 if home else "unknown"}, {fields(page, ("state", "home"))}')
        entry = j['mem']['dirs'][block]
        print(f'directory: {named("dir_state", entry["state"])}, {named("dir_phase", entry["phase"])}, '
              f'{fields(entry, ("state", "phase"))}')


class Slot(gdb.Command):
    """dsm slot [NUMBER]: a request slot of this node, or all in which a thread sleeps."""

    def __init__(self):
        super().__init__('dsm slot', gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, text, from_tty):
        slots = job()['me']['slots']
        last = slots.type.range()[1]
        numbers = [int(evaluate(text))] if text else [i for i in range(last + 1) if int(slots[i]['sleepers'])]
        for i in numbers:
            if not 0 <= i <= last:
                raise gdb.GdbError(f'there are slots 0 to {last}')
            print(f'slot {i}: {fields(slots[i])}')
        if not numbers:
            print('no thread sleeps in a slot')


class Lock(gdb.Command):
    """dsm lock ADDRESS: the handle at an address, and this node's record of the lock."""

    def __init__(self):
        super().__init__('dsm lock', gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, text, from_tty):
        j = job()
        pointer = evaluate(text).cast(gdb.lookup_type('unsigned long').pointer())
        try:
            handle = int(pointer.dereference())
        except gdb.MemoryError:
            raise gdb.GdbError(f'{int(pointer):#x} is not mapped at this node: see "dsm block {text}"')
        if handle in (0, 2 ** 64 - 1):
            raise gdb.GdbError(f'there is no object at {int(pointer):#x}' + (': it was destroyed' if handle else ''))
        home, index, low = handle >> 24 & 0xfff, handle & 0xffffff, handle >> 40 & 0xff
        print(f'handle {handle:#x}: {named("sync_kind", gdb.Value(handle >> 36 & 0xf))} {index} at home {home}')
        if home == int(j['node']):
            print(f'home: {fields(j["mem"]["objects"][index])}')
        name, found = low << 24 | index, 0
        holds = j['me']['holds']
        for i in range(int(j['me']['hold_pool']['fresh'])):
            h = holds[i]
            if int(h['object']) == name and int(h['home']) == home and (int(h['state']) or int(h['word'])):
                word = int(h['word'])
                state = ('HOLD_HELD' if word >> 37 & 1 else 'HOLD_CACHED') if word else named('hold_state', h['state'])
                print(f'record {i}: {state}, {fields(h, ("state", "home", "object"))}')
                found += 1
        if not found:
            print(f'node {int(j["node"])} has no record of it: no thread here holds it or waits for it')


Dsm()
Block()
Slot()
Lock()
