#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures when a report is readable: page_ready.py CHROMIUM PAGE LOADS.

Prints JSON: for the page and for an empty one, loaded in turns in one headless Chromium, the
seconds from the start of the navigation until the visible part was drawn, and the CPU time of the
main thread until then."""
import json
import pathlib
import sys
import tempfile

from playwright.sync_api import sync_playwright

EMPTY = """<!DOCTYPE html><title>empty</title><p>empty</p><script>
requestAnimationFrame(() => requestAnimationFrame(() => { document.documentElement.dataset.ready = performance.now(); }));</script>"""
READY = "document.documentElement.dataset.ready"


def load(browser, path):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    devtools = context.new_cdp_session(page)
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(path.as_uri())
    while not page.evaluate(READY):
        page.wait_for_timeout(20)  # each evaluation costs time of the main thread
    taken = {metric["name"]: metric["value"] for metric in devtools.send("Performance.getMetrics")["metrics"]}
    ready = float(page.evaluate(READY)) / 1e3
    context.close()
    return {"ready": ready, "processor": taken["TaskDuration"]}


def main():
    chromium, page, loads = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), int(sys.argv[3])
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        empty = pathlib.Path(folder) / "empty.html"
        empty.write_text(EMPTY)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        load(browser, page)  # warms up the browser
        found = {"page": [], "empty": []}
        for _ in range(loads):
            found["page"].append(load(browser, page))
            found["empty"].append(load(browser, empty))
        browser.close()
    print(json.dumps({what: {key: [one[key] for one in all_] for key in all_[0]} for what, all_ in found.items()}))


if __name__ == "__main__":
    main()
