//! The page in headless Chromium: no console message, every mark of the charts drawn with a size, nothing
//! wider than the screen; at a desk's and a phone's width, light and dark. Skipped where there is no Chromium.
//!
//! A window cannot be as narrow as a phone, so the pages are shown in frames of the width meant, all in one
//! window. A probe appended to each page (after the page's own script) measures and prints one console line.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tenalloc_replay::report::{Report, compare};

use super::{fixture, page::page};

const PROBE: &str = r#"<script>
addEventListener("load", () => {
  document.querySelectorAll("details").forEach(d => { d.open = true; });
  const marks = Array.from(document.querySelectorAll(".mark"));
  const drawn = marks.filter(m => { const b = m.getBoundingClientRect(); return b.width > 0 || b.height > 0; });
  const wide = Array.from(document.querySelectorAll("main *")).filter(e =>
    !e.closest(".scroll") && !e.closest(".spoken") && !e.closest(".path") && e.getBoundingClientRect().right > innerWidth + 1);
  const plot = document.getElementById("plot");
  let read = "";
  if (plot) {
    for (const key of ["Home", "ArrowRight", "End"]) plot.dispatchEvent(new KeyboardEvent("keydown", { key }));
    read = document.getElementById("spoken").textContent;
  }
  const count = (s) => document.querySelectorAll(s).length;
  console.log("PROBE " + JSON.stringify({
    id: name, width: innerWidth, dark: matchMedia("(prefers-color-scheme: dark)").matches,
    ink: getComputedStyle(document.body).color, aside: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    marks: marks.length, drawn: drawn.length, wide: wide.slice(0, 3).map(e => e.outerHTML.slice(0, 120)),
    lines: count("path.line"), bars: count(".hero rect.mark"), caches: count(".caches rect.mark"),
    cells: count("rect.cell"), groups: count("table.groups tbody tr"), untitled: count("svg[role=img]:not(:has(title)):not([aria-label])"),
    read, images: count("img"),
  }));
});
</script>"#;

const WIDTHS: [u64; 2] = [1280, 360];

fn chromium() -> Option<&'static str> {
    ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success()))
}

/// Starts a browser on `page`; its console goes to `log`.
fn open(browser: &str, folder: &Path, page: &str, dark: bool, log: &Path) -> Child {
    let scheme = if dark { 0 } else { 1 };
    Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        // A machine that steals its time makes no process of it hang, and a small /dev/shm is no matter.
        .args([
            "--disable-gpu-watchdog",
            "--disable-hang-monitor",
            "--disable-dev-shm-usage",
            "--disable-breakpad",
        ])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--v=0", "--window-size=1400,1000", "--dump-dom"])
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!("--user-data-dir={}", folder.join(format!("profile-{scheme}")).display()))
        .arg(format!("file://{}/{page}", folder.display()))
        .env("HOME", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(log).expect("log"))
        .spawn()
        .expect("starts the browser")
}

/// Waits for the browser to end by itself. It takes seconds; the limit is there for one that hangs, and far enough away
/// that no slow machine meets it.
fn end(mut child: Child) {
    let limit = Instant::now() + Duration::from_secs(600);
    while child.try_wait().expect("waits").is_none() {
        if Instant::now() > limit {
            let _ = child.kill();
            let _ = child.wait();
            panic!("the browser did not end within ten minutes");
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn charts_are_drawn_and_the_console_is_silent() {
    let Some(browser) = chromium() else {
        eprintln!("skipped: no chromium binary here");
        return;
    };
    let folder = tempfile::tempdir().expect("folder");
    let reports = fixture::all();
    let mut frames = String::from("<!doctype html><meta charset=utf-8>");
    for (id, report) in &reports {
        let with_probe = page(report).replace("</body>", &format!("{PROBE}</body>"));
        fs::write(folder.path().join(format!("{id}.html")), with_probe).expect("page");
        for width in WIDTHS {
            frames += &format!(
                "<iframe name={id} src={id}.html style='width:{width}px;height:900px;border:0'></iframe>"
            );
        }
    }
    fs::write(folder.path().join("frames.html"), frames).expect("frames");

    let logs = [false, true].map(|dark| {
        let log = folder.path().join(format!("log-{dark}"));
        (dark, open(browser, folder.path(), "frames.html", dark, &log), log)
    });
    for (dark, child, log) in logs {
        end(child);
        let log = fs::read_to_string(&log).expect("log");
        let mut probes = Vec::new();
        for line in log.lines().filter(|l| l.contains("CONSOLE")) {
            let (_, probe) =
                line.split_once("\"PROBE ").unwrap_or_else(|| panic!("the console says: {line}"));
            let (json, _) = probe.rsplit_once("\", source:").expect("a console line");
            probes.push(serde_json::from_str::<Value>(json).expect(json));
        }
        assert_eq!(probes.len(), reports.len() * WIDTHS.len(), "pages that loaded; log:\n{log}");
        for probe in &probes {
            let (_, report) = reports.iter().find(|(id, _)| probe["id"] == **id).expect("a known page");
            assert_eq!(probe["dark"], dark, "{probe}");
            check(probe, report);
        }
        let ink = if dark { "rgb(232, 234, 237)" } else { "rgb(23, 25, 28)" };
        assert!(probes.iter().all(|p| p["ink"] == ink), "colours of the scheme: {probes:?}");
    }
}

/// The marks in the page are those that the report has figures for.
fn check(probe: &Value, report: &Report) {
    // A bar a design; everything else is of slabs, which several designs share.
    assert_eq!(probe["bars"], 4 * report.designs.len(), "four pieces a design: {probe}");
    let report = &compare::by_slabs(report);
    let n = report.designs.len() as u64;
    let drawn_lines =
        if report.designs.iter().flat_map(|d| &d.series).any(|s| s.usage.slab > 0) { n + 1 } else { 0 };
    assert_eq!(probe["lines"], drawn_lines, "a line a design and the live bytes: {probe}");
    let caches: usize = report.designs.iter().map(|d| d.caches.len()).sum();
    assert_eq!(probe["caches"], caches, "a bar a cache and design: {probe}");
    let groups = report.designs.iter().map(|d| d.groups.len()).max().unwrap_or(0);
    assert_eq!(probe["groups"], groups, "a row a group: {probe}");
    let cells =
        report.designs.iter().rfind(|d| d.sharing.shared() > 0).map_or(0, |d| d.sharing.groups.len().pow(2));
    assert_eq!(probe["cells"], cells, "a field a pair: {probe}");

    assert_eq!(probe["drawn"], probe["marks"], "marks without a size: {probe}");
    assert_eq!(probe["wide"], serde_json::json!([]), "wider than the screen: {probe}");
    assert_eq!(probe["aside"], 0, "scrolls sideways: {probe}");
    assert!(WIDTHS.map(Value::from).contains(&probe["width"]), "{probe}");
    assert_eq!((&probe["untitled"], &probe["images"]), (&0.into(), &0.into()), "{probe}");
    let read = probe["read"].as_str().expect("text");
    assert_eq!(read.is_empty(), drawn_lines == 0, "the keyboard reads the chart: {probe}");
}
