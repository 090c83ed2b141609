"""Links that lead on a git host and in docstrings lead on the site, too."""

from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

FOLDERS = {"](notebooks)": "](docs/tutorials.md)", "](../notebooks)": "](tutorials.md)"}
"""Links to folders, which a git host lists: the page that lists them here."""


def _read(app: Sphinx, docname: str, source: list[str]) -> None:
    for before, after in FOLDERS.items():
        source[0] = source[0].replace(before, after)


class NamesFromAnyRoom(SphinxPostTransform):
    """`Forest`, `combiners.Answer`, `Forest.prior`: docstrings name things as their readers do, whatever the room."""

    default_priority = 5  # before Sphinx resolves references

    def run(self) -> None:
        """Put the full name in place of a short one that is known."""
        objects = self.env.domains.python_domain.objects
        for node in self.document.findall(addnodes.pending_xref):
            if node.get("refdomain") != "py":
                continue
            target = node["reftarget"].removeprefix("ju.").removesuffix("()").lstrip(".~")
            parents = [name for name in (node.get("py:module"), node.get("py:class")) if name]
            near = [".".join([*parents[:n], target]) for n in range(len(parents), -1, -1)]
            far = [name for name in objects if name.endswith("." + target) and "._" not in name]
            # What is described in full stands deeper than its name at the root.
            far.sort(key=lambda name: (name.count(".") < 2, name.count("."), name))
            full = next((name for name in near if name in objects and name.count(".") > 1), None)
            if full or far:
                node["reftarget"], node["refspecific"] = full or far[0], False


def setup(app: Sphinx) -> dict[str, bool]:
    """Mend links as pages are read and resolved."""
    app.connect("source-read", _read)
    app.add_post_transform(NamesFromAnyRoom)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
