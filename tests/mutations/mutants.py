# SPDX-License-Identifier: BSD-2-Clause
"""mutants.py - every mechanical change of a C file of the protocol core.

The source is cut into tokens; what a change needs to know of C is found from them: which function a token is in,
which enumeration a name belongs to, how far an operand reaches. A change that is not C, or makes no difference, is
sorted out by the compiler (run). No change is chosen by hand, and none depends on what the code means.

    rule       a cell of a transition table: R_BAD, or the next rule; a cell that is empty: what the column has elsewhere;
               a cell of the table of messages: no rule for the field, or 0 only
    guard      a condition negated, always true, always false
    logic      && and ||, ! and ~ exchanged or taken away, an operand dropped
    relation   < and <=, > and >=, == and != exchanged
    arith      + and -, << and >>, | and &, ++ and --, / and % exchanged
    const      a number one larger, one smaller; a name of an enumeration or an errno replaced by its neighbour
    width      a cast, a variable, a value that is assigned to a field: half as wide; a bit-field: less wide
    delete     a statement taken out; a case of a switch
    action     what a call appends to the list of actions is lost
"""
import hashlib
import re

TOKEN = re.compile(r'''
    (?P<space>\s+ | //[^\n]* | /\*.*?\*/)
  | (?P<prep>(?m:^[ \t]*\#)(?:\\\n|[^\n])*)
  | (?P<text>"(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*')
  | (?P<number>0[xX][0-9a-fA-F]+[uUlL]* | \d+[uUlL]*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<op><<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^~!<>=?:;,.(){}\[\]])
''', re.X | re.S)

HALF = {'uint64_t': 'uint32_t', 'uint32_t': 'uint16_t', 'uint16_t': 'uint8_t', 'int16_t': 'int8_t'}
TYPES = set(HALF) | {'uint8_t', 'int8_t', 'int', 'bool', 'char', 'void', 'size_t', 'unsigned', 'struct', 'enum', 'static',
                     'const', 'inline', 'typedef', 'union'}
KEYWORDS = {'if', 'else', 'while', 'for', 'do', 'switch', 'case', 'default', 'return', 'break', 'continue', 'goto', 'sizeof'}
SWAPS = {'relation': {'<': '<=', '<=': '<', '>': '>=', '>=': '>', '==': '!=', '!=': '=='},
         'arith': {'+': '-', '-': '+', '<<': '>>', '>>': '<<', '|': '&', '&': '|', '++': '--', '--': '++', '+=': '-=',
                   '-=': '+=', '|=': '&=', '&=': '|=', '/': '*', '%': '/'},
         'logic': {'&&': '||', '||': '&&'}}
ERRNO = ['EBADMSG', 'EINVAL', 'EBUSY', 'EAGAIN', 'ETIMEDOUT', 'EALREADY', 'EOVERFLOW', 'ERANGE', 'EPERM', 'EBADMSG']
ASSIGN = {'=', '+=', '-=', '|=', '&=', '*=', '/=', '<<=', '>>='}
# What ends an operand, from the operator that binds least.
ENDS = {';', '{', '}', ',', '?', ':', 'return'} | ASSIGN
LOSE = '({ static struct actions lost_; lost_.n = 0; &lost_; })'


class Token:
    __slots__ = ('kind', 'text', 'at', 'where', 'body', 'table')

    def __init__(self, kind, text, at):
        self.kind, self.text, self.at, self.where, self.body, self.table = kind, text, at, '', False, False

    @property
    def end(self):
        return self.at + len(self.text)


class Mutant:
    """Replace source[at:end] of file by text."""

    def __init__(self, source, op, at, end, text):
        self.file, self.op, self.at, self.end, self.text = source.name, op, at, end, text
        self.where, self.context = source.context(at, end)
        self.old = source.text[at:end]
        self.inside, self.around = source.inside(at), source.around(self.where)
        self.row = op == 'rule' and source.name.endswith('.h')
        self.line = source.text.count('\n', 0, at) + 1
        self.id = ''

    def apply(self, text):
        return text[:self.at] + self.text + text[self.end:]

    def key(self):
        """The same wherever the line is, as long as the statement and its function are."""
        old, new = (' '.join(t.split()) for t in (self.old, self.text))
        return '|'.join((self.file, self.where, self.op, self.context, old, new))

    def describe(self):
        old, new = (' '.join(t.split()) or 'nothing' for t in (self.old, self.text.replace(LOSE, 'LOST')))
        old, new = (t if len(t) <= 70 else t[:67] + '...' for t in (old, new))
        return f'{self.file}:{self.line} {self.where}: {self.op}: {old} -> {new}'


class Source:
    def __init__(self, name, text, enums, widths):
        self.name, self.text, self.enums, self.widths = name, text, enums, widths
        self.tokens = [t for t in scan(text) if t.kind not in ('space', 'prep')]
        self.texts = [t.text for t in self.tokens]
        self.pair = pairs(self.texts)
        self.mark()
        self.found, self.digests = [], {}

    # ---- where a token is ---------------------------------------------------------------------

    def mark(self):
        """Name the declaration around each token, and say whether it is inside of a function or an initializer."""
        i, n = 0, len(self.tokens)
        while i < n:
            start = i
            while i < n and self.texts[i] not in (';', '{'):
                i = self.pair[i] + 1 if self.texts[i] == '(' else i + 1
            end, body = i, False
            if i < n and self.texts[i] == '{':
                body = self.texts[i - 1] in (')', '=')
                end = self.pair[i]
                if not body:  # a type: up to its semicolon
                    while end + 1 < n and self.texts[end] != ';':
                        end += 1
                elif self.texts[i - 1] == '=':
                    end += 1
            name = self.declared(start, min(i, n))
            for k in range(start, min(end + 1, n)):
                self.tokens[k].where = name
                self.tokens[k].body = body and i < k < self.pair[i]
                self.tokens[k].table = self.tokens[k].body and self.texts[i - 1] == '='
            i = end + 1

    def declared(self, start, stop):
        names = [k for k in range(start, stop) if self.tokens[k].kind == 'name']
        for k in names:
            if k + 1 < len(self.texts) and self.texts[k + 1] in ('(', '[') and not self.texts[k].startswith('__'):
                return self.texts[k]
        return self.texts[names[-1]] if names else '?'

    def context(self, at, end):
        """The function, and the statement without its white space."""
        inside = [k for k, t in enumerate(self.tokens) if t.end > at and t.at < max(end, at + 1)]
        if not inside:
            return '#', ''
        first, last = inside[0], inside[-1]
        while first > 0 and self.texts[first - 1] not in (';', '{', '}'):
            first -= 1
        while last + 1 < len(self.texts) and self.texts[last] not in (';', '{', '}'):
            last += 1
        before = sum(1 for k in range(first, inside[0]))
        return self.tokens[inside[0]].where, ' '.join(self.texts[first:last + 1]) + f' @{before}'

    def around(self, where):
        """A digest of the declarations of that name, whatever their layout."""
        if where not in self.digests:
            text = ' '.join(t.text for t in self.tokens if t.where == where) or self.text
            self.digests[where] = hashlib.sha1(text.encode()).hexdigest()[:10]
        return self.digests[where]

    def inside(self, at):
        """In the body of a function, or in a table?"""
        return any(t.at <= at < t.end and t.body for t in self.tokens)

    # ---- making mutants -----------------------------------------------------------------------

    def add(self, op, at, end, text):
        if self.text[at:end] != text:
            self.found.append(Mutant(self, op, at, end, text))

    def replace(self, op, k, text, last=None):
        self.add(op, self.tokens[k].at, self.tokens[k if last is None else last].end, text)

    def all(self):
        for k, t in enumerate(self.tokens):
            if t.kind == 'number':
                self.number(k)
            elif t.kind == 'name':
                self.named(k)
            elif t.kind == 'op' and t.body:
                self.operator(k)
        self.statements()
        self.tables()
        self.rows()
        self.defines()
        seen, unique = set(), []
        for m in self.found:
            result = (m.at, m.end, m.text)
            if result not in seen:
                seen.add(result)
                unique.append(m)
        return unique

    def designator(self, k):
        """[X] before = or another [, or the size of an array."""
        return self.texts[k - 1] == '[' and self.texts[k + 1] == ']' and \
            (self.texts[k + 2] in ('=', '[', ';', ',') and not self.tokens[k].body or self.texts[k + 2] in ('=', '['))

    def number(self, k):
        prev = self.texts[k - 1]
        if prev == ':' and not self.tokens[k].body:  # a bit-field
            width = int(self.texts[k], 0)
            for less in sorted({width - 1, width // 2}):
                if less:
                    self.replace('width', k, str(less))
            return
        if self.designator(k):
            return
        digits = self.texts[k].rstrip('uUlL')
        value, suffix = int(digits, 0), self.texts[k][len(digits):]
        table = self.tokens[k].table and self.texts[k - 1] == ',' and value < 2
        for other in ([1 - value] if table else [value + 1, value - 1] if value else [1]):
            self.replace('const', k, (hex(other) if digits[:2] in ('0x', '0X') else str(other)) + suffix)

    def named(self, k):
        text, t = self.texts[k], self.tokens[k]
        nxt = self.texts[k + 1] if k + 1 < len(self.texts) else ''
        if text in HALF:
            if self.texts[k - 1] == '(' and nxt == ')':
                self.replace('width', k, HALF[text])
            elif t.body or self.is_parameter(k):
                if self.tokens[min(k + 1, len(self.tokens) - 1)].kind == 'name':
                    self.replace('width', k, HALF[text])
        if not t.body:
            return
        if text in self.enums and self.texts[k - 1] != 'case' and not self.designator(k):
            self.enumerator(k)
        elif text in ERRNO:
            self.replace('const', k, ERRNO[ERRNO.index(text) + 1])
            if self.texts[k - 2:k] == ['return', '-'] and nxt == ';':
                self.replace('const', k - 1, '0', k)
        elif text in ('true', 'false'):
            self.replace('const', k, 'false' if text == 'true' else 'true')
        elif text in ('if', 'while') and nxt == '(':
            self.condition(text, k + 1)
        elif text == 'out' and self.texts[k - 1] in ('(', ',') and nxt in (',', ')'):
            self.replace('action', k, LOSE)
        elif text == 'case':
            self.replace('delete', k, '', self.texts.index(':', k))

    def is_parameter(self, k):
        """In the brackets of a function that is defined here."""
        j = k
        while j > 0 and self.texts[j] not in (';', '}', '{'):
            if self.texts[j] == '(':
                return self.texts[self.pair[j] + 1:self.pair[j] + 2] == ['{']
            j -= 1
        return False

    def enumerator(self, k):
        name, rule = self.texts[k], self.texts[k].startswith('R_')
        same = self.enums[name]
        others = [same[(same.index(name) + 1) % len(same)]]
        if rule and self.tokens[k].table:
            others = sorted({same[0], others[0]}, key=same.index)
        for other in others:
            if other != name:
                self.replace('rule' if rule else 'const', k, other)

    def condition(self, keyword, opening):
        first, last = opening + 1, self.pair[opening] - 1
        text = self.text[self.tokens[first].at:self.tokens[last].end]
        for new in ('0', f'!({text})') + (('1',) if keyword == 'if' else ()):
            self.replace('guard', first, new, last)

    def operand(self, k, step, ends):
        """The last token of the operand that begins beside k, walking left (-1) or right (1)."""
        j = k + step
        while 0 <= j < len(self.texts) and self.texts[j] not in ends:
            if self.texts[j] in ('(', '[', '{') if step > 0 else self.texts[j] in (')', ']', '}'):
                j = self.pair[j]
            elif self.texts[j] in (')', ']', '}') if step > 0 else self.texts[j] in ('(', '[', '{'):
                break
            j += step
        return j - step

    def binary(self, k):
        before = self.tokens[k - 1]
        if before.text == ')' and self.texts[k - 2] in TYPES:
            return False  # a cast
        return before.kind in ('number', 'name') and before.text not in KEYWORDS or before.text in (')', ']')

    def operator(self, k):
        text = self.texts[k]
        unary = text in ('+', '-', '*', '&') and not self.binary(k)
        if text in ('!', '~'):
            self.replace('logic', k, '')
        for op, swap in SWAPS.items():
            if text in swap and not unary:
                self.replace(op, k, swap[text])
        if text in ('&&', '||', '|') or text == '&' and not unary:
            ends = ENDS | {'&&', '||'} | ({'|'} if text in ('|', '&') else set())
            left, right = self.operand(k, -1, ends), self.operand(k, 1, ends)
            self.replace('logic', k, '', right)
            self.replace('logic', left, '', k)
        elif text == '?':
            left, colon = self.operand(k, -1, ENDS), self.colon(k)
            right = self.operand(colon, 1, ENDS)
            self.replace('guard', left, self.text[self.tokens[k + 1].at:self.tokens[colon - 1].end], right)
            self.replace('guard', left, self.text[self.tokens[colon + 1].at:self.tokens[right].end], right)
        elif text == '=' and self.texts[k + 1] != '{':
            self.narrow(k)

    def colon(self, k):
        depth = 0
        for j in range(k, len(self.texts)):
            depth += (self.texts[j] == '?') - (self.texts[j] == ':')
            if not depth:
                return j
        raise ValueError('no : for ?')

    def narrow(self, k):
        """x->field = value: the value half as wide as the field."""
        if self.tokens[k - 1].kind != 'name' or self.texts[k - 2] not in ('.', '->'):
            return
        for wide in sorted(self.widths.get(self.texts[k - 1], ())):
            last = self.operand(k, 1, {';', ',', '='})
            value = self.text[self.tokens[k + 1].at:self.tokens[last].end]
            if wide in HALF:
                self.replace('width', k + 1, f'({HALF[wide]})({value})', last)

    def statements(self):
        """Expression statements, return and break: what begins after ; { } ) : else and ends with ;"""
        for k, t in enumerate(self.tokens):
            if not t.body or t.kind != 'name' and t.text not in ('*', '++', '--'):
                continue
            if self.texts[k - 1] not in (';', '{', '}', 'else', 'do') and not self.after_head(k):
                continue
            if t.text in ('break', 'return', 'continue') or t.text not in KEYWORDS | TYPES | set(self.enums):
                last = k
                while self.texts[last] != ';':
                    last = self.pair[last] + 1 if self.texts[last] in ('(', '[', '{') else last + 1
                    if self.texts[last] in ('}', ',') and t.text not in ('return',):
                        last = None
                        break
                if last is not None and not self.is_declaration(k):
                    self.replace('delete', k, ';', last)

    def after_head(self, k):
        prev = self.texts[k - 1]
        if prev == ')':
            return self.texts[self.pair[k - 1] - 1] in ('if', 'while', 'for', 'switch')
        if prev == ':':
            j = k - 2
            while self.texts[j] not in ('case', 'default', ';', '{', '}', '?'):
                j -= 1
            return self.texts[j] in ('case', 'default')
        return False

    def is_declaration(self, k):
        return self.tokens[k].kind == 'name' and self.tokens[k + 1].kind == 'name' and self.texts[k] not in KEYWORDS

    def tables(self):
        """static const x rules[A][B] = { [a] = { [b] = R, ... } }: an empty cell gets what the column has elsewhere."""
        for k, text in enumerate(self.texts):
            if text != 'rules' or self.tokens[k].body or self.texts[k + 1] != '[':
                continue
            table = self.texts.index('{', k)
            rows, j = [], table + 1
            while j < self.pair[table]:
                if self.texts[j] == '{':
                    rows.append(j)
                    j = self.pair[j]
                j += 1
            columns = {}
            cells = [{self.texts[j + 1]: self.texts[j + 4] for j in range(row, self.pair[row])
                      if self.texts[j] == '[' and self.texts[j + 3] == '='} for row in rows]
            for row in cells:
                for column, rule in row.items():
                    columns.setdefault(column, rule)
            for row, filled in zip(rows, cells):
                for column in sorted(set(columns) - set(filled)):
                    end = self.tokens[row].end
                    self.add('rule', self.tokens[row].at, end, f'{{ [{column}] = {columns[column]}, ')

    def rows(self):
        """M(TYPE, CLASS, HOSTS, a rule for each field) of the table of messages."""
        for m in re.finditer(r'^\tM\((.*)\)', self.text, re.M):
            cells = list(re.finditer(r'\w+', m.group(1)))
            # The fields of a message that no host takes have no rules that matter.
            for cell in cells[2:3] if cells[2].group() == 'NONE' else cells[2:]:
                at = m.start(1) + cell.start()
                hosts = cell is cells[2]
                for other in (('NONE', 'BOTH') if hosts else ('ZERO', 'ANY')):
                    self.add('rule', at, at + len(cell.group()), other)

    def defines(self):
        for m in re.finditer(r'^#define[ \t]+(\w+)[ \t]+(0x[0-9a-fA-F]+|\d+)([uUlL]*)', self.text, re.M):
            if m.group(1).endswith('_H'):
                continue
            value = int(m.group(2), 0)
            for other in [value + 1] + ([value - 1] if value else []):
                self.add('const', m.start(2), m.end(2), str(other))


def scan(text):
    at = 0
    while at < len(text):
        m = TOKEN.match(text, at)
        if not m:
            raise ValueError(f'what is {text[at:at + 30]!r}?')
        yield Token(m.lastgroup, m.group(), at)
        at = m.end()


def pairs(texts):
    pair, stack = {}, []
    for k, text in enumerate(texts):
        if text in ('(', '[', '{'):
            stack.append(k)
        elif text in (')', ']', '}'):
            pair[k] = stack.pop()
            pair[pair[k]] = k
    return pair


def declarations(files):
    """Enumerations: name -> all of its kind, without the last when it only counts. Fields: name -> their types."""
    enums, widths = {}, {}
    for text in files.values():
        plain = re.sub(r'//[^\n]*|/\*.*?\*/|^[ \t]*#(\\\n|[^\n])*', ' ', text, flags=re.S | re.M)
        for m in re.finditer(r'\benum\s*\w*\s*\{([^}]*)\}', plain):
            names = re.findall(r'(?:^|,)\s*(\w+)\s*(?=,|=|$)', m.group(1)) # not what macros make
            if len(names) > 2 and re.search(r'(_MAX|S)$', names[-1]):
                names.pop()
            for name in names:
                enums[name] = names
        for m in re.finditer(r'\b(u?int\d+_t)\s+((?:\w+\s*(?::\s*\d+)?\s*,\s*)*\w+)\s*;', plain):
            for name in m.group(2).split(','):
                widths.setdefault(name.split(':')[0].strip(), set()).add(m.group(1))
    return enums, widths


def generate(files):
    """All mutants of the files (name -> text), each with a name of its own that does not depend on line numbers."""
    enums, widths = declarations(files)
    mutants, times = [], {}
    for name in sorted(files):
        for m in Source(name, files[name], enums, widths).all():
            key = m.key()
            times[key] = times.get(key, 0) + 1
            m.id = hashlib.sha1(f'{key}|{times[key]}'.encode()).hexdigest()[:10]
            mutants.append(m)
    return mutants
