// Opens reports in a browser as people do, and checks that they work: node check.mjs REPORT.html...
//
// CHROMIUM is the browser, /usr/bin/chromium if it is not set. Nothing is downloaded.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import process from "node:process";
import puppeteer from "puppeteer-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const LOOKS = [1280, 390].flatMap((width) => ["light", "dark"].map((scheme) => ({ width, scheme })));
const TIMEOUT = 60_000;

const faults = [];
let checked = 0;
const expect = (holds, ...what) => {
  checked += 1;
  if (!holds) faults.push(what.join(" "));
};

/** A page of the report; what it asks of the network and what goes wrong in it are faults. */
const open = async (browser, url, { width = 1280, scheme = "light", scripts = true } = {}) => {
  const page = await browser.newPage();
  page.setDefaultTimeout(TIMEOUT);
  await page.setJavaScriptEnabled(scripts);
  await page.setViewport({ width, height: 900 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  const itself = url.split("#")[0];
  page.on("request", (request) => {
    const asked = request.url();
    expect(asked.split("#")[0] === itself || asked.startsWith("data:"), "the page asks for", asked);
  });
  page.on("pageerror", (error) => expect(false, "a script fails:", error.message));
  page.on("console", (message) => expect(message.type() !== "error", "the console says:", message.text()));
  await page.goto(url, { waitUntil: "load" });
  return page;
};

const accessible = async (page, when) => {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => window.axe.run({ resultTypes: ["violations"] }));
  for (const { id, help, nodes } of violations) {
    expect(false, `axe, ${when}: ${id} (${help}), ${nodes.length} times, first`, nodes[0].html.slice(0, 200));
  }
  expect(true);
};

const looks = async (browser, url) => {
  for (const look of LOOKS) {
    const name = `${look.width} pixels, ${look.scheme}`;
    const page = await open(browser, url, look);
    await accessible(page, name);
    const seen = await page.evaluate(() => {
      const all = (selector) => [...document.querySelectorAll(selector)];
      const nodes = all("#plan-svg a.op").map((node) => ({ node, box: node.querySelector(".box").getBoundingClientRect() }));
      const outside = nodes.flatMap(({ node, box }) => [...node.parentElement.querySelectorAll("text")].filter((text) => {
        const at = text.getBoundingClientRect();
        return !text.closest(".flag") && (at.left < box.left || at.right > box.right || at.bottom > box.bottom);
      }));
      const overlapping = nodes.filter(({ box }, index) => nodes.slice(index + 1).some(({ box: other }) =>
        box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom));
      return {
        width: document.documentElement.scrollWidth,
        outside: outside.map((text) => text.textContent),
        overlapping: overlapping.map(({ node }) => node.getAttribute("aria-label")),
      };
    });
    expect(seen.width <= look.width, `${name}: the page is ${seen.width} pixels wide and scrolls sideways`);
    expect(seen.outside.length === 0, `${name}: text outside of its operator:`, seen.outside.slice(0, 5).join(", "));
    expect(seen.overlapping.length === 0, `${name}: operators overlap:`, seen.overlapping.slice(0, 5).join(", "));
    // With everything open and something selected there is more to judge.
    await page.evaluate(() => { for (const details of document.querySelectorAll("details")) details.open = true; });
    await page.click("#plan-svg a.op:last-of-type");
    await accessible(page, `${name}, all open`);
    await page.close();
  }
};

const state = (page) => page.evaluate(() => {
  const count = (selector) => document.querySelectorAll(selector).length;
  return {
    fragment: location.hash,
    title: document.querySelector("#details h3").textContent,
    plan: [...document.querySelectorAll("#plan-svg .on")].map((node) => node.getAttribute("href")),
    pressed: count("#plan-svg [aria-pressed=true]"),
    row: [...document.querySelectorAll("tr.on")].map((row) => `#${row.id}`),
    stages: count("#stages-table tr.in"),
    bars: count("#timeline-svg .in"),
    dimmed: count("body.chosen"),
    focus: document.activeElement.getAttribute("href"),
  };
});

const selection = async (browser, url) => {
  const page = await open(browser, url);
  // The operator that has most below it to walk to, of a stage that ran in tasks if there is one.
  const target = await page.evaluate(() => {
    const data = JSON.parse(document.querySelector("#profile").textContent);
    const stage = data.stages.findLast((stage) => stage.tasks.length && stage.nodes.length > 1) ?? data.stages[0];
    return { id: `op-${stage.id}-0`, name: stage.nodes[0].name, tasks: stage.tasks.length, below: stage.nodes.length > 1 };
  });
  const link = `#${target.id}`;
  await page.click(`#plan-svg a[href="${link}"]`);
  let now = await state(page);
  expect(now.title === target.name, `selected ${target.name}, and the details are of`, now.title);
  expect(now.fragment === link, `selected ${link}, and the address has`, now.fragment || "no fragment");
  expect(now.plan.join() === link && now.pressed === 1, `selected ${link}, and the plan marks`, now.plan.join() || "nothing");
  expect(now.row.join() === link, `selected ${link}, and the tables mark`, now.row.join() || "nothing");
  expect(now.stages === 1, "the table of stages marks", now.stages, "stages");
  expect(now.bars === target.tasks, `the timeline marks ${now.bars} bars of ${target.tasks}`);

  const [inDetails, inTable] = await page.evaluate((id) => {
    const metric = [...document.querySelectorAll("#details .metric")].find((row) => row.textContent.startsWith("output_rows"));
    return [metric?.querySelector("b").textContent, document.querySelector(`#${id} td:nth-of-type(3)`).textContent];
  }, target.id);
  expect(!inDetails || inDetails === inTable, `the details say ${inDetails} rows, the table says ${inTable}`);

  if (target.below) {
    await page.keyboard.press("ArrowDown");
    now = await state(page);
    expect(now.fragment === link.replace(/0$/, "1"), "the arrow down leads to", now.fragment);
    expect(now.focus === now.fragment, "the focus is on", now.focus, "and not on", now.fragment);
    await page.keyboard.press("ArrowUp");
    now = await state(page);
    expect(now.fragment === link, "the arrow up leads back to", now.fragment);
  }
  await page.keyboard.press("Escape");
  now = await state(page);
  expect(now.fragment === "" && now.plan.length + now.row.length + now.bars + now.dimmed === 0, "after Escape something is still selected:", JSON.stringify(now));
  await page.keyboard.press("Enter");
  now = await state(page);
  expect(now.fragment === link, "Enter on an operator selects", now.fragment || "nothing");
  await page.close();

  const linked = await open(browser, `${url}${link}`);
  now = await state(linked);
  expect(now.title === target.name && now.plan.join() === link, "a link to", link, "shows", now.title);
  await linked.close();
};

const timeline = async (browser, url) => {
  const page = await open(browser, url);
  const bar = await page.evaluate(() => document.querySelector("#timeline-svg a.bar")?.getAttribute("href"));
  if (bar) {
    await page.click(`#timeline-svg a[href="${bar}"]`);
    const now = await state(page);
    expect(now.fragment === bar, `clicked ${bar}, and the address has`, now.fragment || "no fragment");
    expect(now.title.startsWith("Task "), "a bar shows", now.title);
  }
  await page.close();
};

const sorting = async (browser, url) => {
  const page = await open(browser, url);
  const column = (index) => page.$$eval("#stages-table tbody tr", (rows, index) => rows.map((row) => Number(row.cells[index].dataset.v)), index);
  const header = "#stages-table thead th:nth-child(4)";
  for (const [direction, order] of [["descending", (a, b) => b - a], ["ascending", (a, b) => a - b]]) {
    await page.click(`${header} button`);
    const values = await column(3);
    expect(values.join() === values.toSorted(order).join(), `sorted by rows, ${direction}:`, values.join(" "));
    expect(await page.$eval(header, (header) => header.ariaSort) === direction, "the header does not say", direction);
  }
  await page.close();
};

const withoutScripts = async (browser, url) => {
  const page = await open(browser, url, { scripts: false, width: 390 });
  const seen = async (selector) => (await page.$$(selector)).length;
  const drawn = await seen("#plan-svg a.op");
  const listed = await seen("#operators-table tr[id]");
  expect(drawn > 0 && drawn === listed, `without scripts ${drawn} operators are drawn and ${listed} listed`);
  expect(await seen("#stages-table tbody tr") > 0, "without scripts there is no table of stages");
  const box = await (await page.$("#stages-table")).boundingBox();
  expect(box && box.height > 0, "without scripts the table of stages is hidden");
  expect(await (await page.$("#zoom")).boundingBox() === null, "without scripts there are buttons that do nothing");
  await page.click("::-p-xpath(//summary[text()=\"Operators\"])");
  expect(await (await page.$("#operators-table")).boundingBox() !== null, "without scripts the operators do not open");
  await page.close();
};

const files = process.argv.slice(2);
if (!files.length) {
  console.error("usage: node check.mjs REPORT.html...");
  process.exit(2);
}
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  // Containers have no user namespaces to build its sandbox from; what is opened is our own.
  args: ["--no-sandbox", "--disable-gpu"],
  protocolTimeout: TIMEOUT,
});
try {
  for (const file of files) {
    const url = pathToFileURL(file).href;
    const before = [faults.length, checked];
    for (const part of [looks, selection, timeline, sorting, withoutScripts]) {
      await part(browser, url).catch((error) => expect(false, `${part.name}: ${error.message}`));
    }
    const found = faults.splice(before[0]);
    for (const fault of found) console.error(`${file}: ${fault}`);
    faults.push(...found);
    console.log(`${file}: ${checked - before[1]} checks, ${found.length} faults`);
  }
} finally {
  await browser.close();
}
console.log(faults.length ? `reports: ${faults.length} faults` : "reports: all is well");
process.exit(faults.length ? 1 : 0);
