"""The picture of a machine is read at first sight: over all shipped definitions, in a real browser."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from studio_page import opened

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "fsm_definitions").glob("*.json"))
SMALL = {"width": 1280, "height": 800}
# Crossings that Graphviz draws over the same definitions, from left to right and from top to bottom.
GRAPHVIZ = {"LR": 15, "TB": 22}
FACTOR = 1.5
WIDEST = 2.2
# Lines as short pieces in the coordinates of the picture, with their labels as boxes.
MEASURE = """() => {
  const lines = [...document.querySelectorAll('.react-flow__edge')].map((edge) => {
    const path = edge.querySelector('.react-flow__edge-path');
    const length = path.getTotalLength(), points = [];
    for (let at = 0; at < length; at += 6) { const p = path.getPointAtLength(at); points.push([p.x, p.y]); }
    const end = path.getPointAtLength(length); points.push([end.x, end.y]);
    return {id: edge.dataset.id, points};
  });
  const of = (one) => {
    const [x, y] = /translate\\(-50%, -50%\\) translate\\((.*)px, (.*)px\\)/.exec(one.style.transform).slice(1);
    return [+x - one.offsetWidth / 2, +y - one.offsetHeight / 2, +x + one.offsetWidth / 2, +y + one.offsetHeight / 2];
  };
  const labels = [...document.querySelectorAll('.way-label')].map((one) => {
    const text = one.querySelector('span:not(.fault)');
    return {box: of(one), cut: text.scrollHeight > text.clientHeight + 1, text: text.textContent};
  });
  const states = [...document.querySelectorAll('.react-flow__node-state')].map((one) => {
    const [x, y] = /translate\\((.*)px, ?(.*)px\\)/.exec(one.style.transform).slice(1).map(Number);
    return {id: one.dataset.id, box: [x, y, x + one.offsetWidth, y + one.offsetHeight]};
  });
  const turn = (a, b, c) => Math.sign((b[0]-a[0]) * (c[1]-a[1]) - (b[1]-a[1]) * (c[0]-a[0]));
  const cross = (a, b, c, d) => turn(a,b,c) * turn(a,b,d) < 0 && turn(c,d,a) * turn(c,d,b) < 0;
  const inside = ([x, y], [l, t, r, b]) => x > l && x < r && y > t && y < b;
  let crossings = 0;
  lines.forEach((one, n) => lines.slice(n + 1).forEach((other) => {
    for (let i = 1; i < one.points.length; i++) for (let j = 1; j < other.points.length; j++)
      if (cross(one.points[i-1], one.points[i], other.points[j-1], other.points[j])) crossings += 1;
  }));
  const distance = (line, box) => Math.min(...line.points.map(([x, y]) =>
    Math.hypot(x - (box[0] + box[2]) / 2, y - (box[1] + box[3]) / 2)));
  const over = [];
  for (const label of labels) {
    const own = lines.toSorted((a, b) => distance(a, label.box) - distance(b, label.box))[0];
    for (const line of lines) if (line !== own && line.points.some((p) => inside(p, label.box))) over.push(label.text);
  }
  const through = lines.filter((line) => states.some(({box: [l, t, r, b]}) =>
    line.points.some((p) => inside(p, [l + 3, t + 3, r - 3, b - 3])))).map((one) => one.id);
  const boxes = [...states, ...labels].map((one) => one.box);
  const width = Math.max(...boxes.map((b) => b[2])) - Math.min(...boxes.map((b) => b[0]));
  const height = Math.max(...boxes.map((b) => b[3])) - Math.min(...boxes.map((b) => b[1]));
  const zoom = +/scale\\((.*)\\)/.exec(document.querySelector('.react-flow__viewport').style.transform)[1];
  return {crossings, over, through, cut: labels.filter((one) => one.cut).map((one) => one.text),
    labels: labels.length, lines: lines.length, width, height, zoom,
    direction: document.querySelector('.react-flow__handle-bottom') ? 'TB' : 'LR'};
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the studio at `address`, with all shipped definitions."""
    bots = tmp_path_factory.mktemp("bots")
    for path in SHIPPED:
        shutil.copy(path, bots)
    return bots


def measured(page: Page) -> Any:
    """Measure the picture at full size, so that all labels are drawn."""
    expect(page.locator(".react-flow__node-state").first).to_be_visible()
    expect(page.get_by_text("Placing states…")).to_have_count(0)
    for _ in range(4):
        page.get_by_role("button", name="Zoom In").click()
    page.wait_for_timeout(300)
    return page.evaluate(MEASURE)


@pytest.mark.timeout(300)
def test_shipped_definitions_are_read_at_first_sight(browser: Browser, address: str) -> None:
    crossings = {"LR": 0, "TB": 0}
    faults = []
    with opened(browser, address, SHIPPED[0].name, viewport=SMALL) as page:
        for path in SHIPPED:
            page.goto(f"{address.partition('#')[0]}/?file={path.name}")
            found = measured(page)
            crossings[found["direction"]] += found["crossings"]
            ratio = found["width"] / found["height"]
            print(f"{path.stem:16} {found['direction']} {found['lines']:3} lines,", end=" ")
            print(f"{found['crossings']:2} crossings, {ratio:.2f} wide by high")
            if found["over"] or found["through"] or found["cut"] or ratio >= WIDEST:
                faults.append((path.stem, found["over"], found["through"], found["cut"], ratio))
    assert faults == []
    assert sum(crossings.values()) <= GRAPHVIZ["TB"] * FACTOR


@pytest.mark.parametrize("name", ["greeting", "order"])
def test_a_small_machine_is_whole_and_readable_at_first_sight(
    browser: Browser, address: str, name: str
) -> None:
    with opened(browser, address, f"{name}.json", viewport=SMALL) as page:
        expect(page.locator(".react-flow__node-state").first).to_be_visible()
        page.wait_for_timeout(300)
        frame = page.locator(".canvas").bounding_box()
        assert frame is not None
        zoom = page.evaluate(MEASURE)["zoom"]
        assert zoom >= 0.6
        for box in page.locator(".react-flow__node-state").all():
            at = box.bounding_box()
            assert at is not None
            assert at["x"] >= frame["x"]
            assert at["y"] >= frame["y"]
            assert at["x"] + at["width"] <= frame["x"] + frame["width"]
            assert at["y"] + at["height"] <= frame["y"] + frame["height"]
