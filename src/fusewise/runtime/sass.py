"""Reads machine code of NVIDIA GPUs: which instructions stand in it, of which class, inside and outside of loops."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator

from fusewise.plan.resources import Section

# Class of a machine instruction by the start of its mnemonic; the first that fits. Each class has a rate of its own.
_CLASSES: tuple[tuple[str, str], ...] = (
    (r"LDG|STG|LDGSTS|LD\b|ST\b|ATOM|RED|UBLKCP|UTMA", "global"),
    (r"LDS|STS|LDSM|ATOMS", "shared"),
    (r"LDL|STL", "local"),
    (r"MUFU", "special"),
    (r"F2FP|F2F|F2I|I2F|FRND|I2I|I2FP", "convert"),
    (r"SHFL|VOTE|MATCH|REDUX", "shuffle"),
    (
        r"BAR|BSSY|BSYNC|BRA|EXIT|RET|CALL|WARPSYNC|DEPBAR|LDGDEPBAR|MEMBAR|ERRBAR|BPT|BREAK|JMP|NANOSLEEP|YIELD|BMOV",
        "control",
    ),
    (r"HMMA|HGMMA|IMMA|QGMMA|DMMA|WGMMA|UTC", "matrix"),
    (r"D(ADD|MUL|FMA|SETP|MNMX)", "double"),
    (r"F(ADD|MUL|FMA|SEL|SET|SETP|MNMX|CHK|SWZADD)|H(ADD2|MUL2|FMA2|SET2|SETP2|MNMX2)", "float"),
    (r"U[A-Z]", "uniform"),
    (r"MOV|LDC|S2R|CS2R|R2UR|P2R|R2P", "move"),
    (r"NOP", "nop"),
)
_INTEGER = "integer"

_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?PT?\d*\s+)?([A-Z][A-Z0-9]*(?:\.[A-Z0-9_]+)*)([^;]*)")
_LABEL = re.compile(r"\s*(\.L_x_\d+):")
_JUMP = re.compile(r"`\((\.L_x_\d+)\)")
_LOADS, _STORES = re.compile(r"LDG"), re.compile(r"STG")
_OTHERS_MEMORY = re.compile(r"LDG(?!\S*\.CONSTANT)|STG|ATOM|RED|LDS|STS|BAR")  # what no function's slow path touches


@functools.cache
def instruction_class(mnemonic: str) -> str:
    """Class of a SASS mnemonic such as `IMAD.WIDE`: global, shared, local, special, convert, float, integer, ..."""
    for pattern, name in _CLASSES:
        if re.match(pattern, mnemonic):
            return name
    return _INTEGER


def count_instructions(sass: str) -> dict[str, int]:
    """Instructions of a disassembly by class, no-ops left out."""
    return dict(_section([line for line in sass.splitlines() if _INSTRUCTION.match(line)]).instructions)


def sections(sass: str) -> tuple[Section, tuple[Section, ...]]:
    """(what is outside of loops, the loops in the order of the code) of a disassembly.

    A loop is what lies between the target of a branch back and the branch; loops within a loop belong to it. Slow paths
    of functions are left out, since ordinary operands skip them: what follows the endless self-branch after a kernel's
    end (called by a division whose operand is subnormal, say), and inline ones (`_slow_paths`).
    """
    lines: list[str] = []
    place: dict[str, int] = {}
    jumps: list[tuple[int, str]] = []
    for line in sass.splitlines():
        label = _LABEL.match(line)
        if label:
            place[label[1]] = len(lines)
        found = _INSTRUCTION.match(line)
        if not found:
            continue
        jump = _JUMP.search(line)
        if found[1].startswith("BRA") and jump:
            if place.get(jump[1]) == len(lines):
                break  # the self-branch at the end
            jumps.append((len(lines), jump[1]))
        lines.append(line)
    edges = [(at, place[label]) for at, label in jumps if label in place]
    slow = _slow_paths(lines, edges)
    outer = _outermost([(to, at) for at, to in edges if to <= at and at not in slow])
    inside = {number for first, last in outer for number in range(first, last + 1)}
    straight = _section([line for number, line in enumerate(lines) if number not in inside | slow])
    loops = ([n for n in range(first, last + 1) if n not in slow] for first, last in outer)
    return straight, tuple(_section([lines[n] for n in loop]) for loop in loops)


def _slow_paths(lines: list[str], edges: list[tuple[int, int]]) -> set[int]:
    """Places of instructions that ordinary operands jump over, as the reduction of a large argument of sin and cos.

    Such a path is skipped by a branch to the point where the threads of a warp meet again (`BSYNC`), has a loop of its
    own, and touches no memory beside the stack and tables of constants.
    """
    names = list(_mnemonics(lines))
    slow: set[int] = set()
    for at, to in edges:
        if at < to < len(names) and names[to].startswith("BSYNC"):
            own_loop = any(at < first <= last < to for last, first in edges)
            if own_loop and not any(_OTHERS_MEMORY.match(name) for name in names[at + 1 : to]):
                slow |= set(range(at + 1, to))
    return slow


def _outermost(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    kept: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if kept and first <= kept[-1][1]:
            kept[-1] = (kept[-1][0], max(last, kept[-1][1]))
        else:
            kept.append((first, last))
    return kept


def _section(lines: list[str]) -> Section:
    counted: Counter[str] = Counter()
    loaded = stored = barriers = 0
    for mnemonic in _mnemonics(lines):
        counted[instruction_class(mnemonic)] += 1
        barriers += mnemonic.startswith("BAR.SYNC")
        if _LOADS.match(mnemonic):
            loaded += _width(mnemonic)
        elif _STORES.match(mnemonic):
            stored += _width(mnemonic)
    counted.pop("nop", None)
    return Section(dict(sorted(counted.items())), loaded, stored, barriers)


def _mnemonics(lines: list[str]) -> Iterator[str]:
    for line in lines:
        found = _INSTRUCTION.match(line)
        if found:
            yield found[1]


def _width(mnemonic: str) -> int:
    """Bytes a thread of a global load or store."""
    for part in mnemonic.split(".")[1:]:
        if part in ("64", "128"):
            return int(part) // 8
        if part in ("U8", "S8"):
            return 1
        if part in ("U16", "S16"):
            return 2
    return 4
