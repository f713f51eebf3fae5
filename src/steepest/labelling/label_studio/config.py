"""The labelling configuration of Label Studio for each task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import quoteattr

from steepest.labelling.exchange.vocabulary import MULTI_LABEL, SEGMENTATION, Vocabulary

IMAGE, CHOICES, BRUSH, POLYGON = "image", "label", "brush", "polygon"
"""The names that results refer to."""

_CONTROLS = {
    "classification": {"Choices"},
    "multi-label": {"Choices"},
    "segmentation": {"BrushLabels", "PolygonLabels"},
}


def make_config(words: Vocabulary) -> str:
    """Return the configuration, in Label Studio's markup, for a task and its classes."""
    image = f'<Image name="{IMAGE}" value="${IMAGE}" zoom="true"/>'
    if words.task == SEGMENTATION:
        labels = "".join(f"<Label value={quoteattr(name)}/>" for name in words.names)
        controls = "".join(
            f'<{tag} name="{name}" toName="{IMAGE}">{labels}</{tag}>'
            for tag, name in (("BrushLabels", BRUSH), ("PolygonLabels", POLYGON))
        )
        return f"<View>{image}{controls}</View>"
    several = words.task == MULTI_LABEL
    # Of several classes none may be right; of one it may not.
    asked = 'choice="multiple"' if several else 'choice="single" required="true"'
    choices = "".join(f"<Choice value={quoteattr(name)}/>" for name in words.names)
    return (
        f'<View>{image}<Choices name="{CHOICES}" toName="{IMAGE}" {asked} showInline="true">'
        f"{choices}</Choices></View>"
    )


def find_difference(parsed: Mapping[str, Any], words: Vocabulary) -> str:
    """Say why a project's configuration does not ask what this loop asks; empty if it does.

    Args:
        parsed: The configuration as the server describes it, by the controls' names.
        words: The loop's task and classes.
    """
    wanted = _CONTROLS[words.task]
    found = [c for c in parsed.values() if c.get("type") in wanted]
    if not found:
        return f"it has no {' or '.join(sorted(wanted))}"
    for control in found:
        labels = set(control.get("labels", ()))
        if labels != set(words.names):
            odd = sorted(labels ^ set(words.names))
            return f"its classes differ ({', '.join(map(str, odd[:3]))})"
    return ""
