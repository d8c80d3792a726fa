"""`python tests/ui/screenshots.py ATLAS`: every page of an atlas as a picture in docs/ui, to be looked at and shown."""

import sys
import tempfile
from pathlib import Path

import click

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

VIEWS = {
    "overview": "",
    "component": "component?at=L20N100",
    "search": "search?by=words&term=united+states",
    "prediction": "prediction?position=136",
    "evidence": "evidence",
    "map": "map",
    "papers": "evidence?show=papers&paper=geva2022&item=table4",
    "sql": "sql?sql=FROM+geva2022_fig3()&chart=true",
}
"""Name → address; the neuron and the position are those of the demo."""


@click.command()
@click.argument("path", type=click.Path(path_type=Path, exists=True))
@click.option("-o", "--output", type=click.Path(path_type=Path), default=ROOT / "docs" / "ui", help="Folder of the pictures.")
@click.option("--scheme", type=click.Choice(["light", "dark"]), default="light")
@click.option("--width", default=1280)
def main(path: Path, output: Path, scheme: str, width: int) -> None:
    from tests.ui.browser import browsing, serving, settled

    with tempfile.TemporaryDirectory() as folder, serving(path, Path(folder) / "log") as server, browsing() as browser:
        page = browser.new_page(viewport={"width": width, "height": 1000}, color_scheme=scheme, reduced_motion="reduce")
        for name, address in VIEWS.items():
            page.goto(f"{server.url}/{address}")
            settled(page)
            if "sql=" in address:
                page.get_by_role("button", name="Run", exact=True).click()
            page.wait_for_timeout(2500)
            settled(page)
            page.screenshot(path=output / f"{name}.png")


if __name__ == "__main__":
    main()
