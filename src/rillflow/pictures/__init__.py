"""A flow as something to look at: text, Mermaid, SVG, JSON, and the drawing of the live view."""
