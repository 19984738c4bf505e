"""Writes docs/ops.md: the ATen operators that Fusewise lowers, and where their bits are eager's.

python docs/make_ops.py
"""

from __future__ import annotations

from pathlib import Path

from fusewise.capture.random import _RULES as RANDOM_RULES
from fusewise.ir.expand import TABLE

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "ops.md"

FAMILIES = {
    "arithmetic": "Arithmetic",
    "compare": "Comparisons, logic, clamps",
    "unary": "Functions of one operand",
    "activations": "Activations and their gradients",
    "reductions": "Reductions",
    "softmax": "Softmax",
    "norms": "Norms",
    "losses": "Losses",
    "views": "Views",
    "indexing": "Joins, padding, indexing",
    "factories": "Factories",
}
BITS = {
    "exact": "eager's bits on every device",
    "cuda": "eager's bits on a GPU",
    "cpu": "eager's bits on a CPU",
    "inexact": "bits that may differ from eager's",
}

# Why the operators of a family that are not claimed cannot be matched.
FUNCTIONS = (
    "eager calls vector functions of MKL, SLEEF or the GPU's own library, or its compiler makes products and sums one;"
    " on a CPU which of these it is can depend on an element's place"
)
SUMS = "they add or multiply many floats, and the order in which eager does depends on shape, device and threads"
WHY = {
    "Arithmetic": FUNCTIONS,
    "Functions of one operand": FUNCTIONS,
    "Activations and their gradients": FUNCTIONS,
    "Reductions": SUMS,
    "Softmax": SUMS,
    "Norms": SUMS,
    "Losses": f"{SUMS}; and they use functions such as exp and log",
    "Views": "what they give depends on how eager's tensor lies in memory",
    "Factories": "the memory is uninitialised, or not every element of eager's series was found to be reproduced",
}

HEAD = """# Supported operators

<!-- Written by `python docs/make_ops.py`; a test compares it. Do not edit. -->

These {count} ATen operators are lowered: each is written in primitive operators and can be part of a fused kernel.
What is not listed is tried by torch's own decomposition (under `balanced` and `aggressive`), which serves where every
piece of it is listed. Else it runs as PyTorch's own kernel, which is never an error: `fusewise explain` counts such
operators and says why. Matrix products, convolutions, attention and sorting always do.

An operator "with eager's bits" gives bit for bit what eager PyTorch gives. Under `conservative` the others run as
PyTorch's own kernels; under the other policies they may be fused, and [policies](policies.md) says how far off they may
be. A listed operator can still refuse a call (a complex dtype, for example): that call runs as in eager.
[What is guaranteed](guarantees.md) has the counts: how many inputs were compared, how many differ, and which calls of
operators with eager's bits stay eager all the same.

`.default` is left out of the names. In-place forms arrive as the functional ones.
"""

RANDOM = """
## Random numbers

`{names}` become a seed drawn from PyTorch's generator and a pure function of seed and element. `torch.manual_seed`
repeats them; the numbers are not those that eager draws. A mask is never stored: backward computes it again.
"""


def page() -> str:
    """The text of the page."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for name, row in TABLE.items():
        module = row.expand.__module__.rsplit(".", 1)[1]
        grouped.setdefault((FAMILIES[module], row.exactness), []).append(_short(name))
    parts = [HEAD.format(count=len(TABLE))]
    for title in FAMILIES.values():
        parts.append(f"\n## {title}\n")
        for exactness, meaning in BITS.items():
            names = sorted(grouped.get((title, exactness), []))
            if names:
                why = f" ({WHY[title]})" if exactness == "inexact" else ""
                parts.append(f"\n{meaning[0].upper()}{meaning[1:]}{why}: {', '.join(f'`{n}`' for n in names)}.\n")
    parts.append(RANDOM.format(names="`, `".join(sorted(_short(str(op)) for op in RANDOM_RULES))))
    return "".join(parts)


def _short(name: str) -> str:
    return name.removeprefix("aten.").removesuffix(".default")


def main() -> None:
    """Writes the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
