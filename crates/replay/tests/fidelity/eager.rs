//! The list_lru of Linux 5.10, which made a head for every group in advance: what the replay makes of it against what
//! the kernel was seen making, by call site.

use super::{open, shared};
use std::collections::HashMap;
use std::path::Path;
use tenalloc_replay::report::{Design, Made};
use tenalloc_replay::run::{Settings, replay};

const NODES: u64 = 4;
/// list_lrus of older file systems. Their arrays are seen growing.
const OLDER: u64 = 45;
/// `MEMCG_CACHES_MIN_SIZE`: places of the first arrays.
const FIRST: u64 = 4;

/// Events by function and kind of event, from callsites.tsv: counted by another program than the one that replays.
fn events(folder: &Path) -> HashMap<(String, String), Vec<u64>> {
    let text = std::fs::read_to_string(folder.join("callsites.tsv")).expect("call sites");
    let mut found: HashMap<_, Vec<u64>> = HashMap::new();
    for line in text.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [_, function, _, events] = columns[..] else { panic!("four columns: {line}") };
        for event in events.split([',', ' ']).filter(|e| !e.is_empty()) {
            let (kind, number) = event.rsplit_once(':').expect("kind:number");
            let of = found.entry((function.to_owned(), kind.to_owned())).or_default();
            of.push(number.parse().expect("a number"));
        }
    }
    found
}

fn sum(design: &Design, what: &str, of: fn(&Made) -> u64) -> u64 {
    design.lists_made.iter().filter(|m| m.what == what).map(of).sum()
}

#[test]
fn heads_and_arrays_are_those_that_the_kernel_made() {
    let Some(folder) = shared("numa4_churn_510") else { return };
    let events = events(&folder);
    let at = |function: &str, kind: &str| events[&(function.to_owned(), kind.to_owned())].clone();
    let program = open(&folder);
    assert_eq!((program.counts.older_lists, u64::from(program.nodes)), (Some(OLDER), NODES));
    let names = ["linux-5.8", "linux-5.9", "+transposed", "+lazy", "linux-5.18", "linux-6.18", "tenalloc"];
    let settings = Settings { check_every: None, recorded_nodes: false };
    let report = replay(&program, &names, &settings, ("trace", 1), &mut |_| {}).expect("it runs");

    // Two groups are older than the recording. The replay makes them with its first step, and with them the first
    // arrays of the older list_lrus; the kernel had made those before the recording.
    let arrays_before = OLDER * NODES;
    let heads_before = arrays_before * FIRST;
    let heads: u64 = at("__memcg_init_list_lru_node", "kmalloc").iter().sum();
    assert_eq!((heads, heads_before), (422_280, 720));
    let made_with_list: u64 = at("__list_lru_init", "kmalloc_node").iter().sum();
    let grown: u64 = at("memcg_update_all_list_lrus", "kmalloc_node").iter().sum();
    let lists: u64 = at("__list_lru_init", "kmalloc").iter().sum();
    assert_eq!((made_with_list, grown, lists), (4_320, 4_272, 1_080));
    for design in &report.designs[..2] {
        let made = |what| sum(design, what, |m| m.made);
        assert_eq!(made("heads"), heads + heads_before, "{}", design.name);
        assert_eq!(made("index"), made_with_list + grown + arrays_before, "{}", design.name);
        assert_eq!(made("lru"), lists + OLDER, "{}", design.name);
        // What goes, goes with its list_lru; the replay lets that go when the superblock's memory is freed. At the end
        // the kernel had taken down 7 superblocks whose memory was to be freed later.
        let gone: u64 = at("list_lru_destroy", "kfree").iter().max().copied().expect("a site of heads");
        let waiting = 7 * 2;
        let freed = sum(design, "heads", |m| m.made - m.live);
        assert_eq!(freed + waiting * NODES * 94, gone, "{}", design.name);
    }
    // Sizes as `kmalloc` was asked for: 24 bytes a head, 16 + 8 a place for an array.
    let sizes = |what: &str| -> Vec<(u64, u64)> {
        let made = report.designs[1].lists_made.iter().filter(|m| m.what == what);
        made.map(|m| (m.asked, m.taken)).collect()
    };
    assert_eq!(sizes("heads"), [(24, 32)]);
    assert_eq!(sizes("index"), [4, 10, 22, 46, 94].map(|n| 16 + 8 * n).map(|n: u64| (n, kmalloc(n))));

    println!("{:<12} {:>8} {:>8} {:>14}", "design", "heads", "index", "KiB at peak");
    let mut previous = u64::MAX;
    for design in &report.designs {
        let (heads, index) = (sum(design, "heads", |m| m.made), sum(design, "index", |m| m.made));
        let bytes = design.lists_at_peak.kernel.lists();
        println!("{:<12} {heads:>8} {index:>8} {:>14}", design.name, bytes / 1024);
        // D5 has a lock in each head: the one step that costs.
        assert!(bytes <= previous || design.name == "linux-6.18", "{}", design.name);
        previous = bytes;
    }
}

/// The cache that serves so many bytes.
fn kmalloc(bytes: u64) -> u64 {
    if (65..=96).contains(&bytes) {
        96
    } else if (129..=192).contains(&bytes) {
        192
    } else {
        bytes.next_power_of_two()
    }
}
