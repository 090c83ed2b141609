"""The picture of the page that ``jaxunc compare`` writes: ``python -m benchmarks.report_picture``.

It runs the README's first command, which takes two or three minutes, and photographs the page without its appendix into
``benchmarks/results/report-page.png``. Of a run that is there already (``--report FOLDER``) the page alone is written
anew. This needs the ``cli`` extra, Chromium with fonts (Debian: ``chromium fonts-dejavu-core``) and the package
``playwright``.
"""

import argparse
import io
import shutil
import sys
from pathlib import Path

from PIL import Image

from jaxunc.__main__ import main as jaxunc

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "benchmarks" / "results" / "report-page.png"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
QUIET = ("no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking", "disable-sync")
WIDTH, N_COLOURS = 1000, 64

# What is shown: all that stands before the appendix, without what opens.
SHORTEN = """() => {
  document.querySelectorAll("main > details, #appendix").forEach(part => part.remove());
  document.body.style.paddingBottom = "1rem";
}"""


def photograph(page: Path) -> Image.Image:
    """Return a picture of the shortened page; one that is cut at the side is refused."""
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if chromium is None:
        sys.exit("there is no chromium here; install one, with fonts: apt-get install chromium fonts-dejavu-core")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=[f"--{option}" for option in QUIET])
        opened = browser.new_page(viewport={"width": WIDTH, "height": 800})
        opened.goto(page.resolve().as_uri())
        opened.evaluate(SHORTEN)
        wide = opened.evaluate("[document.body, ...document.querySelectorAll('.scroll')].map(x => x.scrollWidth)")
        shown = opened.screenshot(full_page=True)
        browser.close()
    if max(wide) > WIDTH:
        sys.exit(f"something on the page is {max(wide)} pixels wide, and cut at {WIDTH}")
    return Image.open(io.BytesIO(shown)).convert("RGB")


def main(argv: list[str] | None = None) -> None:
    """Run the study, and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", type=Path, default=ROOT / "build" / "report", help="the folder of the run")
    folder = parser.parse_args(argv).report
    jaxunc(["compare", "--report", str(folder)])
    picture = photograph(folder / "report.html")
    picture.quantize(N_COLOURS, dither=Image.Dither.NONE).save(PICTURE, optimize=True)
    print(f"{PICTURE}: {picture.width} × {picture.height}, {PICTURE.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
