"""Figures that only the site shows: what the code of a page draws beneath it, and a first one of each notebook."""

import base64
import io
import json
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


def gallery(page: Path) -> None:
    """Put the first figure of each notebook, made small, into the item of the page's list that leads to it."""
    from PIL import Image

    folder = page.with_suffix("")
    folder.mkdir()

    def pictured(item: re.Match) -> str:
        notebook = json.loads((page.parent / item["notebook"]).read_text(encoding="utf-8"))
        outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
        drawn = [output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", {})]
        if not drawn:
            return item[0]
        with Image.open(io.BytesIO(base64.b64decode(drawn[0]))) as picture:
            picture.thumbnail((360, 240), Image.Resampling.LANCZOS)
            picture.convert("RGB").quantize(64).save(folder / f"{Path(item['notebook']).stem}.png", optimize=True)
        small = f"{folder.name}/{Path(item['notebook']).stem}.png"
        return f"* [![a figure of this notebook]({small})]({item['notebook']})\n  {item[0].removeprefix('* ')}"

    text = page.read_text(encoding="utf-8")
    text = re.sub(r"^\* \[.*?\]\((?P<notebook>\S+\.ipynb)\)", pictured, text, flags=re.MULTILINE)
    page.write_text(text.replace("\n* [", "\n{.gallery}\n* [", 1), encoding="utf-8")
