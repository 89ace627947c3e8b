# SPDX-License-Identifier: BSD-2-Clause
"""Are functions entered in the order in which a page names them? For tests/trace/run and tests/kmod/miss."""
import re
import sys

PAGE = 'docs/life-of-a-miss.md'


def check(sections, entered, least):
    """Compare, and exit. sections: heading -> (list in `entered`, threads that may run it, and, if it begins after a function of an
    earlier section, that section and function); entered: list -> [(thread, function)]; least: how many names there must be."""
    told, steps, failed, section = {}, 0, 0, None  # told: section -> function -> where it was entered
    for line in open(PAGE):
        if line.startswith('#'):
            section = line.lstrip('#').strip()
            if section in sections:
                where, threads, before, function = sections[section]
                at, told[section] = (told[before].get(function, 0) if before else 0), {}
        if section not in sections or not re.match(r'\d+\. ', line):
            continue
        for name in re.findall(r'`(\w+)\(\)`', line):
            steps += 1
            found = next((i for i in range(at, len(entered[where])) if entered[where][i][1] == name and entered[where][i][0] in threads), None)
            if found is None:
                failed += 1
                print(f'{PAGE}: "{section}": {name}() is not entered there by {where}', file=sys.stderr)
                continue
            told[section].setdefault(name, found)
            at = found + 1
    if set(sections) != set(told) or steps < least:
        sys.exit(f'{PAGE} has only the sections {list(told)}, with {steps} functions')
    print(f'{steps - failed} passed, {failed} failed')
    sys.exit(failed > 0)
