"""How Sphinx builds the site. `build.py` calls it, with the pages staged as they lie in the repository."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parents[2])]  # the second for `tests`, whose list of rooms is the one

import reference  # noqa: E402

import jaxunc  # noqa: E402

project = "jaxunc"
author = "the jaxunc authors"
copyright = "the jaxunc authors, Apache-2.0"
version = release = jaxunc.__version__
language = "en"

extensions = ["sphinx.ext.autodoc", "numpydoc", "myst_nb", "mathml", "as_written", "links", "pages"]
root_doc = "docs/index"
exclude_patterns = ["docs/_*", "docs/build.py", "docs/conf.py", "docs/paper"]
templates_path = ["_templates"]
default_role = "py:obj"
add_module_names = False
toc_object_entries = False  # names are headings already
python_use_unqualified_type_names = True
maximum_signature_line_length = 80
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # signatures are shown as they are written: `as_written`
autoclass_content = "class"

# Of numpydoc's checks those that our form meets. PR01, RT01 and YD01, whose exceptions are rules, are made in
# docs/checks/test_docstrings.py. Off, and what fails in 488 docstrings: ES01 (320), EX01 (381) and SA01 (488; names in
# the text are links): a line that says all is enough, and pages hold the examples. PR04 (749 parameters): types stand
# in the signature. PR08 (32): descriptions may begin with a symbol. SS05 (17): results are named by nouns.
numpydoc_validation_checks = {
    *("GL01", "GL02", "GL03", "GL05", "GL06", "GL07", "GL08", "GL09", "GL10"),
    *("SS01", "SS02", "SS03", "SS04", "SS06", "SA02", "SA03", "SA04"),
    *("PR02", "PR03", "PR05", "PR06", "PR07", "PR09", "PR10", "RT02", "RT03", "RT04", "RT05"),
}
numpydoc_validation_exclude = reference.attributes()
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

myst_enable_extensions = ["colon_fence", "dollarmath", "attrs_block"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # notebooks are shown with the outputs that they are kept with; .ci/run runs a half anew
nb_ipywidgets_js: dict[str, dict] = {}  # nothing from elsewhere
html_math_renderer = "mathml"

html_theme = "pydata_sphinx_theme"
html_title = "jaxunc"
html_favicon = "_static/favicon.svg"
html_search_scorer = str(HERE / "_static" / "scorer.js")
html_static_path = ["_static"]
html_extra_path = ["_root"]  # index.html of the folder, which leads to the first page
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {page: [] for page in ("docs/index", "docs/start", "README")}  # pages without others below them
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
