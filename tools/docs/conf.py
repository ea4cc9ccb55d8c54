# SPDX-License-Identifier: MIT
"""Settings of Sphinx; tools/docs/build copies this file next to the pages."""
project = "hiwater"
copyright = "the hiwater developers"  # noqa: A001
extensions = ["myst_parser"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
myst_heading_anchors = 4
smartquotes = False  # "--wait" is an option, not a dash
html_theme = "furo"
html_title = "hiwater"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
primary_domain = None
highlight_language = "none"
add_module_names = False
maximum_signature_line_length = 90
