"""Settings of the documentation site, which `make docs` builds with Sphinx."""

import os
import sys
from pathlib import Path

import nlgnn

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))
# Notebooks call `nlgnn` of this environment, without colours.
os.environ |= {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "NO_COLOR": "1",
    "COLUMNS": "110",
}

project = "nlgnn"
author = "the authors of nlgnn"
project_copyright = author
version = release = nlgnn.__version__

extensions = [
    "myst_nb",
    "sphinx_copybutton",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "command_pages",
    "model_pages",
    "mathml",
    "repository_links",
]
exclude_patterns = ["_build", "_extensions", "_templates"]
templates_path = ["_templates"]
html_extra_path = ["examples"]  # example reports

# Pages in Markdown
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_execution_in_temp = True
nb_merge_streams = True
nb_output_stderr = "remove"  # progress

# Reference
autodoc_default_options = {
    "members": True,
    "inherited-members": "BaseEstimator, BaseModel, ClassifierMixin, Exception, Model, Module, tuple",
    "member-order": "bysource",
    # made by PyTorch, pydantic and scikit-learn, with links to their own sites
    "exclude-members": "activation, get_metadata_routing, model_config, set_fit_request, set_score_request",
}
autodoc_typehints = "description"
autosummary_generate = True
napoleon_google_docstring = napoleon_numpy_docstring = True
toc_object_entries = False
add_module_names = False

# Pages in HTML
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["math.css"]
smartquotes = False  # options begin with two hyphens
html_title = f"nlgnn {release}"
html_show_copyright = html_copy_source = html_show_sourcelink = False
html_math_renderer = "mathml"
