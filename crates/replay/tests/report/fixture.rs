//! Reports that no replay made: a plausible one, an ugly one, an empty one, one with very many groups.
//!
//! The figures are invented by plain formulas, so that a view's output can be checked by hand. They are not
//! measurements and never leave the tests.

use tenalloc_replay::report::{
    Cache, Checks, Design, Group, ListUsage, Lists, Made, Report, SCHEMA, Sample, Sharing, Trace, Truth,
    TruthRow, Usage, VERSION,
};

const CACHES: [(&str, u32, u64); 14] = [
    ("dentry", 192, 9100),
    ("kmalloc-cg-64", 64, 7000),
    ("inode_cache", 608, 1900),
    ("radix_tree_node", 576, 1500),
    ("kmalloc-cg-4k", 4096, 310),
    ("vm_area_struct", 184, 2900),
    ("task_struct", 8448, 64),
    ("shmem_inode_cache", 744, 700),
    ("proc_inode_cache", 680, 620),
    ("kmalloc-cg-1k", 1024, 300),
    ("filp", 256, 1000),
    ("anon_vma", 104, 1300),
    ("signal_cache", 1152, 61),
    ("kmalloc-512", 512, 800),
];

fn trace(seconds: f64, groups: usize) -> Trace {
    Trace {
        path: "data/fixture".into(),
        kernel: Some("Linux 6.12.0-fixture x86_64".into()),
        cpus: 4,
        nodes: 4,
        seconds,
        samples: vec![("kmem:kmalloc".into(), 120_000), ("kmem:kfree".into(), 118_000)],
        events: 529_000,
        allocations: 240_000,
        accounted: 98_000,
        matched_frees: 228_000,
        unseen_frees: 620,
        hidden_frees: 33,
        lost: 0,
        live_at_end: 12_000,
        groups: groups as u64,
        peak_live_bytes: 14_500_000,
        read_ns: 350_000_000,
        own: 1_200,
        supers: 37,
    }
}

/// A design that needs `per_cache` slabs of `slack` % more than its objects.
fn design(name: &str, summary: &str, groups: usize, slack: u64, shared: bool) -> Design {
    let caches: Vec<Cache> = CACHES
        .iter()
        .enumerate()
        .map(|(i, &(name, slot_size, objects))| {
            let live = objects * u64::from(slot_size);
            let slabs = (live * (100 + slack * (1 + i as u64 % 5) / 2) / 100).div_ceil(4096);
            Cache { name: name.into(), slot_size, objects, live, slab: slabs * 4096, slabs }
        })
        .collect();
    let live: u64 = caches.iter().map(|c| c.live).sum();
    let slab: u64 = caches.iter().map(|c| c.slab).sum();
    let lists = lists(groups as u64, slack);
    let usage = |live: u64, slab: u64| Usage {
        live,
        slab,
        owners: if shared { slab / 500 } else { 0 },
        metadata: slab / 60,
        cached: slab / 90,
        lists: lists.kernel.lists(),
        shrinkers: lists.kernel.shrinkers,
    };
    let series: Vec<Sample> = (0..=200)
        .map(|i| {
            // Up, a plateau with teeth, half way down: containers come, live and go.
            let t = f64::from(i) * 15.54 / 200.0;
            let level = if i < 80 { i as u64 * 1000 / 80 } else { 1000 - (i as u64 % 12) * 9 };
            let level = if i > 140 { level.saturating_sub((i as u64 - 140) * 11) } else { level };
            let held = level.max((i as u64 * 1000 / 80).min(1000) * (40 + slack / 2) / 100);
            Sample { t, usage: usage(live * level / 1000, slab * held / 1000) }
        })
        .collect();
    let groups: Vec<Group> = (0..groups)
        .map(|i| {
            let used = live / 2 / (i as u64 + 2);
            Group {
                path: {
                    let id = (i as u128 + 3).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
                    format!("/docker/{id:032x}{:032x}", id.reverse_bits())
                },
                removed: i % 7 == 3,
                objects: used / 200,
                used,
                charged: (used * (100 + slack) / 100).next_multiple_of(if shared { 1 } else { 4096 }),
            }
        })
        .collect();
    let sharing = sharing(&groups, slab / 4096, shared);
    Design {
        name: name.into(),
        summary: summary.into(),
        at_peak: Sample { t: 6.216, usage: usage(live, slab) },
        at_end: series.last().copied().unwrap_or_default(),
        max_slab: slab,
        average: usage(live * 7 / 10, slab * 8 / 10),
        average_utilisation: live as f64 * 0.7 / (slab as f64 * 0.8),
        series,
        caches,
        groups,
        sharing,
        groups_created: 64,
        groups_removed: 60,
        orphans: if shared { 3 } else { 0 },
        run_ns: 180_000_000,
        ops: 469_000,
        checks: Checks { groups: 64, model: 4 },
        slabs_of: name.into(),
        lists_at_peak: lists,
        lists_at_end: lists,
        lists_made: vec![
            Made { what: "heads".into(), asked: 32, taken: 32, made: 900, live: lists.kernel.heads / 32 },
            Made { what: "index".into(), asked: 536, taken: 1024, made: 80, live: lists.kernel.index / 1024 },
        ],
        lists_used: 300,
    }
}

/// Lists that take 32 bytes a head and 1 KiB an index; here, twice as much.
fn lists(groups: u64, slack: u64) -> ListUsage {
    let of = |times: u64| Lists {
        heads: times * groups * slack * 32,
        index: times * 74 * 1024,
        lrus: times * 74 * 256,
        shrinkers: times * groups * 128,
    };
    ListUsage { kernel: of(1), here: of(2) }
}

fn sharing(groups: &[Group], slabs: u64, shared: bool) -> Sharing {
    let n = groups.len().min(16);
    let cell = |a: usize, b: usize| -> u64 {
        if a == b {
            220 - 9 * a as u64
        } else if shared {
            90 / (1 + a.abs_diff(b) as u64) + (a * b) as u64 % 7
        } else {
            0
        }
    };
    Sharing {
        by_owners: if shared {
            let many = slabs / 12;
            vec![slabs / 9, slabs - slabs / 9 - 8 * many, 2 * many, many, many, many, many, many, many]
        } else {
            vec![slabs / 9, slabs - slabs / 9]
        },
        groups: groups.iter().take(n).map(|g| g.path.clone()).collect(),
        matrix: (0..n).map(|a| (0..n).map(|b| cell(a, b)).collect()).collect(),
    }
}

fn with_truth(mut report: Report) -> Report {
    let groups = report.designs.first().map_or(Vec::new(), |d| d.groups.clone());
    let rows: Vec<TruthRow> = groups
        .iter()
        .enumerate()
        .map(|(i, g)| TruthRow {
            path: g.path.clone(),
            kernel: if i == 0 { g.used + 48_576 } else { g.used },
            designs: vec![g.used; report.designs.len()],
            older: i == 1,
        })
        .collect();
    report.truth = vec![Truth {
        label: "steady".into(),
        t: 9.9,
        groups: rows.iter().filter(|r| !r.older).count() as u64,
        equal: rows.iter().filter(|r| !r.older && r.is_equal()).count() as u64,
        older: rows.iter().filter(|r| r.older).count() as u64,
        rows,
    }];
    report
}

const OLD: &str = "Each group has its own set of caches, so no two groups ever share a slab.";
const NEW: &str = "All groups share slabs; each object knows its owner, at no cost in a slab of one owner.";

/// Two designs and `groups` groups.
pub(crate) fn of_groups(groups: usize) -> Report {
    with_truth(Report {
        schema: SCHEMA.into(),
        version: VERSION,
        tenalloc: "0.1.0".into(),
        trace: trace(15.54, groups),
        designs: vec![design("linux-5.8", OLD, groups, 60, false), design("tenalloc", NEW, groups, 9, true)],
        truth: Vec::new(),
        notes: vec![
            "Frees by kfree_rcu have no event: 33 objects were freed when their address was reused.".into(),
        ],
    })
}

/// What a replay of a small recording might give.
pub(crate) fn plain() -> Report {
    of_groups(40)
}

/// Seven designs.
pub(crate) fn seven() -> Report {
    let mut report = plain();
    let names = ["linux-5.8", "linux-5.9", "+transposed", "+lazy", "linux-5.18", "linux-6.18", "tenalloc"];
    report.designs = names
        .iter()
        .enumerate()
        .map(|(i, name)| {
            // Those of the middle differ in their lists alone.
            let slabs = if (1..5).contains(&i) { 1 } else { i };
            let mut design = design(name, NEW, 40, 60 - 8 * slabs as u64, i > 0);
            design.slabs_of = names[slabs].into();
            let lists = lists(40, 60 - 8 * i as u64);
            (design.lists_at_peak, design.lists_at_end) = (lists, lists);
            let usages = design.series.iter_mut().chain([&mut design.at_peak, &mut design.at_end]);
            usages.for_each(|sample| sample.usage.lists = lists.kernel.lists());
            design.average.lists = lists.kernel.lists();
            design
        })
        .collect();
    with_truth(report)
}

/// Names that a page, a terminal or a CSV reader must not obey.
pub(crate) fn ugly() -> Report {
    let mut report = plain();
    let names = [
        "</script><script>console.error('broken out')</script>",
        "<img src=x onerror=\"console.error('attribute')\">",
        "\" onmouseover='alert(1)' x=\"",
        "/日本語/контейнер/🦀🦀🦀/é\u{301}",
        "a,b;\"c\"\r\nd\te",
        "\u{1b}[2J\u{1b}]0;title\u{7}\u{202e}txet\u{2028}\u{2029}\u{0}",
        "<!--<script>",
        "{{ 7 * 7 }}{% raw %}&amp;&lt;",
        "=cmd|' /C calc'!A1",
        "",
    ];
    let long = "/kubepods.slice".to_string() + &"/kubepods-burstable-pod0123456789abcdef".repeat(8);
    let name = |i: usize| if i % 11 == 10 { long.clone() } else { names[i % names.len()].to_string() };
    report.trace.path = format!("/tmp/{}", names[0]);
    report.trace.kernel = Some(names[1].into());
    report.trace.lost = 17;
    report.trace.samples.push((names[4].into(), 1));
    for design in &mut report.designs {
        design.summary = names[6].into();
        design.caches.iter_mut().enumerate().for_each(|(i, c)| c.name = name(i));
        design.groups.iter_mut().enumerate().for_each(|(i, g)| g.path = name(i));
        design.sharing.groups.iter_mut().enumerate().for_each(|(i, g)| *g = name(i));
    }
    report.designs[0].name = names[0].into();
    report.designs[1].name = long.clone();
    for truth in &mut report.truth {
        truth.label = names[2].into();
        truth.rows.iter_mut().enumerate().for_each(|(i, r)| r.path = name(i));
    }
    report.notes = names.iter().map(|n| n.to_string()).chain([long]).collect();
    report
}

/// A recording of one moment in which nothing happened.
pub(crate) fn empty() -> Report {
    let quiet = |name: &str| Design {
        name: name.into(),
        series: vec![Sample::default()],
        average_utilisation: 1.0,
        ..Design::default()
    };
    Report {
        schema: SCHEMA.into(),
        version: VERSION,
        tenalloc: "0.1.0".into(),
        trace: Trace { path: "empty".into(), cpus: 1, nodes: 1, ..Trace::default() },
        designs: vec![quiet("linux-5.8"), quiet("tenalloc")],
        ..Report::default()
    }
}

/// Every fixture, by name.
pub(crate) fn all() -> Vec<(&'static str, Report)> {
    vec![
        ("plain", plain()),
        ("seven", seven()),
        ("ugly", ugly()),
        ("empty", empty()),
        ("many", of_groups(500)),
        ("nothing", Report { schema: SCHEMA.into(), version: VERSION, ..Report::default() }),
    ]
}
