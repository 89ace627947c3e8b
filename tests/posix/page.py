# SPDX-License-Identifier: BSD-2-Clause
"""dsm-cc(1), for tests/posix/run and scripts/check-cases."""
import pathlib
import re

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/man/dsm-cc.1"


def words(page):
    """The text of a manual page without its macros, one space between words."""
    text = []
    for line in page.splitlines():
        if line.startswith((".SH", ".SS")):
            text.append(line.split(" ", 1)[1])
        elif re.match(r"\.(BR|RB|IR|RI|BI|IB) ", line):
            parts = re.findall(r'"((?:[^"])*)"|(\S+)', line.split(" ", 1)[1])
            text.append("".join(quoted or word for quoted, word in parts))
        elif re.match(r"\.[BI] ", line):
            text.append(line.split(" ", 1)[1].replace('"', ""))
        elif not line.startswith((".", "'")):
            text.append(line)
    text = re.sub(r"\\f.|\\&", "", " ".join(text)).replace("\\-", "-").replace("\\(aq", "'")
    return " ".join(text.split())
