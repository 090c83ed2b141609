"""Figures drawn by the code that stands above them: the page shows the code, the site also what it draws."""

import re
from pathlib import Path


def draw(page: Path) -> None:
    """Run a page's blocks in turn, and put the figures of each beneath it."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names: dict = {}
    folder = page.with_suffix("")
    folder.mkdir()

    def shown(block: re.Match) -> str:
        exec(compile(block[1], page.name, "exec"), names)
        displays = [getattr(names["compare"], name) for name in re.findall(r"compare\.(\w+Display)", block[1])]
        told = " ".join((one.__doc__ or "").partition("\n")[0].replace("`", "") for one in displays)
        pictures = []
        for number in plt.get_fignums():
            path = folder / f"{len(list(folder.iterdir()))}.svg"
            plt.figure(number).savefig(path, bbox_inches="tight")
            pictures.append(f"\n\n![what this code draws: {told}]({folder.name}/{path.name})")
        plt.close("all")
        return block[0] + "".join(pictures)

    with matplotlib.rc_context({"svg.hashsalt": "jaxunc", "figure.figsize": (6, 3.6)}):
        page.write_text(re.sub(r"```python\n(.*?)```", shown, page.read_text(encoding="utf-8"), flags=re.DOTALL))
