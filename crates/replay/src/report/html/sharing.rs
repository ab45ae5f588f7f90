//! Who shares slabs: how many groups a slab serves (bars), and which ones meet (a matrix).

use serde::Serialize;

use super::super::units::{count, counted, percent};
use super::super::{Report, Sharing};
use super::{HUES, place, printable, share};

/// With more designs than these, the figures over the bars would run into each other: they are left out.
const MOST_TEXTS: usize = 3;

/// Both charts.
#[derive(Default, Serialize)]
pub(super) struct Charts {
    histogram: Vec<Class>,
    /// Top of the bars' axis, in percent of the slabs.
    top: String,
    matrix: Option<Matrix>,
    told: String,
}

/// Slabs that serve so many groups.
#[derive(Serialize)]
struct Class {
    name: String,
    x: String,
    bars: Vec<Bar>,
}

#[derive(Serialize)]
struct Bar {
    hue: usize,
    x: String,
    width: String,
    y: String,
    height: String,
    text: String,
    title: String,
}

#[derive(Serialize)]
struct Matrix {
    design: String,
    hue: usize,
    groups: Vec<String>,
    side: String,
    /// Middle of each row and column, percent.
    middles: Vec<String>,
    cells: Vec<Cell>,
    told: String,
}

#[derive(Serialize)]
struct Cell {
    x: String,
    y: String,
    own: bool,
    opacity: String,
    title: String,
}

pub(super) fn charts(report: &Report) -> Charts {
    let classes = report.designs.iter().map(|d| d.sharing.by_owners.len()).max().unwrap_or(0);
    let at = |s: &Sharing, n: usize| s.by_owners.get(n).copied().unwrap_or(0);
    let top = report
        .designs
        .iter()
        .flat_map(|d| (0..classes).map(move |n| share(at(&d.sharing, n), d.sharing.slabs())))
        .fold(0.0, f64::max);
    if classes == 0 || top == 0.0 {
        return Charts { matrix: matrix(report), ..Charts::default() };
    }
    let step = 100.0 / classes as f64;
    let width = step * 0.78 / report.designs.len().max(1) as f64;
    let histogram = (0..classes).map(|n| {
        let bars = report.designs.iter().enumerate().map(|(i, design)| {
            let slabs = at(&design.sharing, n);
            let part = share(slabs, design.sharing.slabs());
            let height = part / top * 100.0;
            let of = counted(design.sharing.slabs(), "slab", "slabs");
            Bar {
                hue: i % HUES,
                x: place(step * n as f64 + step * 0.11 + width * i as f64),
                width: place(width * 0.92),
                y: place(100.0 - height),
                height: place(height),
                text: if slabs == 0 || report.designs.len() > MOST_TEXTS {
                    String::new()
                } else {
                    format!("{part:.0}")
                },
                title: printable(&format!(
                    "{}: {} of {of}, {}",
                    design.name,
                    count(slabs),
                    percent(part / 100.0)
                )),
            }
        });
        let last = n + 1 == classes && n > 1;
        let name = if last { format!("{n}+") } else { n.to_string() };
        Class { name, x: place(step * (n as f64 + 0.5)), bars: bars.collect() }
    });
    let told = report.designs.iter().filter(|d| d.sharing.slabs() > 0).map(|d| {
        let part = d.sharing.shared() as f64 / d.sharing.slabs() as f64;
        let name = printable(&d.name);
        let slabs = counted(d.sharing.slabs(), "slab", "slabs");
        match d.sharing.shared() {
            0 => format!("{name}: none of {slabs} serves two groups."),
            _ => format!("{name}: {} of {slabs} serve two groups or more.", percent(part)),
        }
    });
    Charts {
        told: told.collect::<Vec<_>>().join(" "),
        histogram: histogram.collect(),
        top: format!("{top:.0} %"),
        matrix: matrix(report),
    }
}

/// The matrix of the last design in which groups meet.
fn matrix(report: &Report) -> Option<Matrix> {
    let (i, design) = report
        .designs
        .iter()
        .enumerate()
        .rfind(|(_, d)| d.sharing.groups.len() > 1 && d.sharing.shared() > 0)?;
    let sharing = &design.sharing;
    let n = sharing.groups.len();
    let at = |a: usize, b: usize| sharing.matrix.get(a).and_then(|r| r.get(b)).copied().unwrap_or(0);
    let pairs = || (0..n).flat_map(|a| (0..n).map(move |b| (a, b)));
    let most = pairs().filter(|(a, b)| a != b).map(|(a, b)| at(a, b)).max().unwrap_or(0);
    let groups: Vec<String> = sharing.groups.iter().map(|g| printable(g)).collect();
    let name = |a: usize| groups.get(a).map_or("", String::as_str);
    let side = 100.0 / n as f64;
    let cells = pairs().map(|(a, b)| {
        let slabs = counted(at(a, b), "slab", "slabs");
        Cell {
            x: place(side * b as f64),
            y: place(side * a as f64),
            own: a == b,
            // The square root keeps the small ones visible.
            opacity: format!("{:.2}", (at(a, b) as f64 / most.max(1) as f64).sqrt().min(1.0)),
            title: if a == b {
                format!("{}: objects in {slabs}", name(a))
            } else {
                format!("{} and {}: {slabs} in common", name(a), name(b))
            },
        }
    });
    let best = pairs().filter(|(a, b)| a < b).max_by_key(|(a, b)| at(*a, *b));
    let told = best.map_or(String::new(), |(a, b)| {
        format!("Groups {} and {} share most: {}.", a + 1, b + 1, counted(at(a, b), "slab", "slabs"))
    });
    Some(Matrix {
        design: printable(&design.name),
        hue: i % HUES,
        side: place(side),
        middles: (0..n).map(|a| place(side * (a as f64 + 0.5))).collect(),
        cells: cells.collect(),
        groups,
        told,
    })
}
