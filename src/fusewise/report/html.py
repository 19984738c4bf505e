"""An explanation as a page that stands alone: no scripts, nothing loaded from elsewhere.

Names and code come from the user's program; the template engine escapes each of them.
"""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from fusewise.report.choices import distinct
from fusewise.report.documents import Explanation
from fusewise.report.format import format_bytes, format_ops, format_place, format_share, format_us, short_op


def explanation_page(explanation: Explanation) -> str:
    """The HTML text."""
    environment = Environment(
        loader=PackageLoader("fusewise.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {
        "bytes": format_bytes,
        "us": format_us,
        "ops": format_ops,
        "op": short_op,
        "share": format_share,
        "distinct": distinct,
    }
    environment.globals["place"] = format_place
    return environment.get_template("explanation.html.j2").render(explanation=explanation)
