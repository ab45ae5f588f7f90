//! The nine replay rules of the traces' README, each with a test that bears its number.

use super::stream::Resolver;
use crate::program::{Group, GroupId, Op, OpKind, Program};
use crate::read::event::{Alloc, Event, GFP_ACCOUNT, GFP_DMA, GFP_RECLAIMABLE, Kind, Names};
use crate::read::{Recording, Sink};
use crate::sidecar::Sidecar;
use crate::sidecar::geometry::Table;
use crate::sidecar::ranges::Range;
use crate::sidecar::stamps::RawStamp;

/// An event each ns.
struct Script {
    names: Names,
    side: Sidecar,
    events: Vec<Event>,
}

impl Script {
    fn new() -> Self {
        let side = Sidecar { tasks: Some(vec![(1, "/".into()), (10, "/g/a".into())]), ..Sidecar::default() };
        Self { names: Names::default(), side, events: Vec::new() }
    }

    fn geometry(mut self, text: &str) -> Self {
        self.side.geometry = Some(Table::parse(text, "slabgeom.txt").unwrap());
        self
    }

    fn event(&mut self, tid: i32, kind: Kind) -> &mut Self {
        let time = 100 + self.events.len() as u64;
        self.events.push(Event { time, tid, cpu: 0, sample: 0, interrupt: false, kind });
        self
    }

    fn interrupt(&mut self) -> &mut Self {
        self.events.last_mut().unwrap().interrupt = true;
        self
    }

    fn kmalloc(&mut self, tid: i32, ptr: u64, size: u32, gfp: u32) -> &mut Self {
        let accounted = gfp & GFP_ACCOUNT != 0;
        let alloc = Alloc { ptr, site: 7, size, gfp, name: None, node: -1, kmalloc: true, accounted };
        self.event(tid, Kind::Alloc(alloc))
    }

    fn object(&mut self, tid: i32, ptr: u64, site: u64, accounted: bool) -> &mut Self {
        let alloc = Alloc { ptr, site, size: 192, gfp: 0, name: None, node: -1, kmalloc: false, accounted };
        self.event(tid, Kind::Alloc(alloc))
    }

    fn free(&mut self, ptr: u64, name: Option<&str>) -> &mut Self {
        let name = name.map(|n| self.names.intern(n.as_bytes()));
        self.event(1, Kind::Free { ptr, name })
    }

    fn mkdir(&mut self, tid: i32, path: &str) -> &mut Self {
        let path = self.names.intern(path.as_bytes());
        self.event(tid, Kind::Mkdir { root: 0, path })
    }

    fn rmdir(&mut self, path: &str) -> &mut Self {
        let path = self.names.intern(path.as_bytes());
        self.event(1, Kind::Rmdir { root: 0, path })
    }

    fn attach(&mut self, pid: i32, root: i32, path: &str) -> &mut Self {
        let path = self.names.intern(path.as_bytes());
        self.event(1, Kind::Attach { pid, root, path })
    }

    fn run(&mut self) -> Program {
        let mut side = std::mem::take(&mut self.side);
        let mut r = Resolver::new(&mut side).unwrap();
        for e in &self.events {
            r.event(e, &self.names);
        }
        r.end(&self.names);
        let read = Recording { events: vec!["kmem:kmalloc".into()], ..Recording::default() };
        r.finish(read, side, "test").unwrap()
    }
}

fn allocs(p: &Program) -> Vec<Op> {
    p.ops.iter().filter(|o| o.kind == OpKind::Alloc).copied().collect()
}

fn caches(p: &Program) -> Vec<&str> {
    allocs(p).iter().map(|o| p.caches[usize::from(o.cache.0)].name.as_str()).collect()
}

fn owners(p: &Program) -> Vec<&str> {
    let path = |o: &Op| p.groups.get(o.group.0 as usize).map_or("-", |g| g.path.as_str());
    allocs(p).iter().map(path).collect()
}

fn kinds(p: &Program) -> Vec<OpKind> {
    p.ops.iter().map(|o| o.kind).filter(|k| *k != OpKind::Create).collect()
}

#[test]
fn rule_1_the_cache_of_a_kmalloc() {
    let both = GFP_ACCOUNT | GFP_RECLAIMABLE;
    let p = Script::new()
        .kmalloc(10, 1, 64, 0)
        .kmalloc(10, 2, 64, GFP_ACCOUNT)
        .kmalloc(10, 3, 64, both)
        .kmalloc(10, 4, 8192, GFP_DMA)
        .kmalloc(10, 5, 16384, GFP_ACCOUNT)
        .free(5, None)
        .run();
    assert_eq!(caches(&p), ["kmalloc-64", "kmalloc-cg-64", "kmalloc-rcl-64", "dma-kmalloc-8192"]);
    // Above 8,192 bytes: counted, but pages and no slab.
    let c = &p.counts;
    assert_eq!((c.large, c.allocations, c.accounted, c.matched_frees, c.live_at_end), (1, 5, 3, 1, 4));
    assert_eq!(kinds(&p).len(), 4);
    assert_eq!(c.peak_live_bytes, 3 * 64 + 8192 + 16384);
}

#[test]
fn rule_1_kernels_before_5_14_have_no_kmalloc_cg() {
    let table = "C kmalloc-1k 1024 1024 2 16\nC kmalloc-rcl-1k 1024 1024 2 16\n";
    let p = Script::new().geometry(table).kmalloc(10, 1, 1024, GFP_ACCOUNT).kmalloc(1, 2, 1024, 0).run();
    assert_eq!(caches(&p), ["kmalloc-1024", "kmalloc-1024"]);
    assert_eq!((p.caches.len(), p.caches[0].geometry.unwrap().objects), (1, 16));
}

#[test]
fn rule_2_accounted_is_told_by_the_event() {
    let p = Script::new().object(10, 1, 9, true).object(10, 2, 9, false).kmalloc(10, 3, 8, GFP_ACCOUNT).run();
    assert_eq!(owners(&p), ["/g/a", "-", "/g/a"]);
    assert_eq!(allocs(&p)[1].group, GroupId::NOBODY);
    assert_eq!((p.counts.accounted, p.counts.charged, p.counts.groups_charged), (2, 2, 1));
}

#[test]
fn rule_3_the_owner_is_where_the_task_is() {
    let p = Script::new()
        .object(10, 1, 9, true)
        .event(10, Kind::Fork { parent: 10, child: 11 })
        .object(11, 2, 9, true)
        .attach(11, 0, "/g/b")
        .attach(11, 3, "/elsewhere")
        .object(11, 3, 9, true)
        .object(99, 4, 9, true)
        .object(1, 5, 9, true)
        .object(0, 6, 9, true)
        .object(10, 7, 9, true)
        .interrupt()
        .event(11, Kind::Exit)
        .object(11, 8, 9, true)
        .event(99, Kind::Fork { parent: 99, child: 11 })
        .object(11, 9, 9, true)
        .run();
    let expected = ["/g/a", "/g/a", "/g/b", "(unknown)", "/", "/", "(interrupt)", "(exited)", "(unknown)"];
    assert_eq!(owners(&p), expected);
    assert_eq!((p.counts.charged, p.counts.groups_charged, p.counts.interrupt), (3, 2, 1));
    assert!(p.groups.iter().all(|g| g.path != "/elsewhere"));
}

#[test]
fn rule_3_a_new_groups_structures_belong_to_its_parent() {
    let mut s = Script::new();
    s.side.sites = Some([(5, "mem_cgroup_css_alloc.cold".to_owned())].into_iter().collect());
    let p = s
        .object(10, 1, 5, true)
        .object(11, 2, 5, true)
        .mkdir(10, "/g/a/new")
        .object(10, 3, 9, true)
        .attach(10, 0, "/g/a/new")
        .object(10, 4, 9, true)
        .run();
    // Task 11 made a group that was never seen.
    assert_eq!(owners(&p), ["/g/a", "(unknown)", "/g/a", "/g/a/new"]);
    assert_eq!((p.counts.charged, p.counts.groups_charged), (3, 2));
}

#[test]
fn rule_3_groups_stand_before_they_are_used_and_pass_to_their_parent() {
    let p = Script::new()
        .mkdir(1, "/h/x")
        .attach(20, 0, "/h/x")
        .object(20, 1, 9, true)
        .rmdir("/h/x")
        .object(20, 2, 9, true)
        .mkdir(1, "/h/x")
        .attach(20, 0, "/h/x")
        .object(20, 3, 9, true)
        .rmdir("/h/never")
        .run();
    let path = |g: &Group| (g.path.clone(), g.created, g.removed);
    let real: Vec<_> = p.groups[4..].iter().map(path).collect();
    assert_eq!(
        real,
        [
            ("/g".to_owned(), None, None),
            ("/g/a".to_owned(), None, None),
            ("/h".to_owned(), None, None),
            ("/h/x".to_owned(), Some(0), Some(3)),
            ("/h/x".to_owned(), Some(5), None),
            ("/h/never".to_owned(), None, Some(8)),
        ]
    );
    let groups: Vec<_> = allocs(&p).iter().map(|o| o.group.0).collect();
    assert_eq!(groups, [7, 6, 8]);
    let created: Vec<_> =
        p.ops.iter().filter(|o| o.kind == OpKind::Create).map(|o| (o.time, o.group.0)).collect();
    assert_eq!(created, [(0, 4), (0, 5), (0, 6), (0, 9), (0, 7), (5, 8)]);
}

#[test]
fn rule_3_a_task_that_moved_at_the_start_was_elsewhere_if_the_trace_has_its_move() {
    use crate::sidecar::recording::Recording as Json;
    for (moves, expected) in [
        // The attach is in the trace: before it, the task and what it forked are in the first place.
        (Some("/g/a"), ["/g/from", "/g/from", "/g/a"]),
        // It moved before the first event, and later elsewhere.
        (Some("/g/c"), ["/g/a", "/g/a", "/g/c"]),
        (None, ["/g/a", "/g/a", "/g/a"]),
    ] {
        // All events wait, or those up to the first stamp.
        for stamp in [None, Some(103)] {
            let mut s = Script::new();
            let json = r#"{"start":0.0,"moved_at_start":[{"tid":10,"from":"/g/from"}]}"#;
            s.side.recording = Json::parse(json, "recording.json").unwrap();
            s.side.stamps = stamp.iter().map(|&time| RawStamp { time, ..RawStamp::default() }).collect();
            s.object(10, 1, 9, true).event(10, Kind::Fork { parent: 10, child: 11 }).object(11, 2, 9, true);
            if let Some(path) = moves {
                s.attach(10, 0, path);
            }
            let p = s.object(10, 3, 9, true).object(11, 4, 9, true).run();
            assert_eq!(owners(&p)[..3], expected, "{moves:?}, {stamp:?}");
            assert_eq!(owners(&p)[3], expected[1], "{moves:?}, {stamp:?}");
        }
    }
}

#[test]
fn rule_3_a_group_made_while_the_tasks_were_read_is_made_then() {
    use crate::sidecar::recording::Recording as Json;
    let mut s = Script::new();
    s.side.recording = Json::parse(r#"{"start":0.0}"#, "recording.json").unwrap();
    s.mkdir(1, "/g/a").object(10, 1, 9, true).mkdir(1, "/g/b").rmdir("/g/a").mkdir(1, "/g/a");
    let p = s.attach(10, 0, "/g/a").object(10, 2, 9, true).run();
    let times: Vec<_> = p.groups[4..].iter().map(|g| (g.path.as_str(), g.created, g.removed)).collect();
    let expected =
        [("/g", None, None), ("/g/a", Some(0), Some(3)), ("/g/b", Some(2), None), ("/g/a", Some(4), None)];
    assert_eq!(times, expected);
    assert!(p.notes.iter().all(|n| !n.text.contains("made again")), "{:?}", p.notes);
}

#[test]
fn rule_4_stamps_stand_before_the_first_event_after_them() {
    let mut s = Script::new();
    let stamp = |time, label: &str| RawStamp { label: label.into(), time, slab: vec![("/g/a".into(), 200)] };
    s.side.stamps = vec![stamp(101, "one"), stamp(900, "two")];
    let p = s.object(10, 1, 9, true).object(10, 2, 9, true).object(10, 3, 9, true).run();
    // An event at the very time of the stamp belongs before it.
    assert_eq!(kinds(&p), [OpKind::Alloc, OpKind::Alloc, OpKind::Stamp, OpKind::Alloc, OpKind::Stamp]);
    assert_eq!((p.stamps[0].time, p.stamps[1].time), (1, 800));
    assert!(p.notes.iter().any(|n| n.text.contains("outside the recording")), "{:?}", p.notes);
}

#[test]
fn rule_5_a_pointer_handed_out_again_was_freed() {
    let p = Script::new().object(10, 1, 9, true).kmalloc(10, 1, 64, 0).free(1, None).free(1, None).run();
    assert_eq!(kinds(&p), [OpKind::Alloc, OpKind::HiddenFree, OpKind::Alloc, OpKind::Free]);
    let c = &p.counts;
    assert_eq!((c.hidden_frees, c.matched_frees, c.unseen_frees, c.live_at_end), (1, 1, 1, 0));
    // The new object may take the old one's place at once.
    assert_eq!((p.slots, c.peak_live_bytes, c.end_live_bytes, c.peak_accounted_bytes), (1, 192, 0, 192));
}

#[test]
fn rule_6_frees_of_older_objects_are_skipped() {
    let p = Script::new().free(0, None).free(77, Some("dentry")).object(10, 0, 9, true).run();
    assert!(kinds(&p).is_empty());
    assert_eq!((p.counts.unseen_frees, p.counts.allocations, p.counts.matched_frees), (1, 0, 0));
}

#[test]
fn rule_7_the_kernels_own_owner_vectors_are_left_out() {
    for name in ["alloc_slab_obj_exts", "memcg_alloc_slab_cgroups", "memcg_alloc_page_obj_cgroups.isra.0"] {
        let mut s = Script::new();
        s.side.sites = Some([(7, name.to_owned())].into_iter().collect());
        let p = s.kmalloc(1, 1, 512, 0).object(10, 2, 9, true).free(1, None).run();
        assert_eq!(kinds(&p), [OpKind::Alloc]);
        let c = &p.counts;
        assert_eq!((c.owner_vectors, c.allocations, c.matched_frees, c.peak_live_bytes), (1, 2, 1, 704));
    }
}

#[test]
fn rule_8_the_node_is_where_the_pointer_lies() {
    let mut s = Script::new();
    s.side.ranges =
        vec![Range { node: 0, start: 0, end: 0xfff }, Range { node: 1, start: 0x1000, end: 0x1fff }];
    let four_levels = 0xffff_8880_0000_0000;
    let p = s
        .kmalloc(1, 0xff11_0000_0000_0800, 8, 0)
        .kmalloc(1, 0xff11_0000_0000_1800, 8, 0)
        .kmalloc(1, four_levels + 0x1000, 8, 0)
        .kmalloc(1, four_levels + 0x9000, 8, 0)
        .run();
    let nodes: Vec<_> = allocs(&p).iter().map(|o| o.node).collect();
    assert_eq!((nodes, p.nodes, p.counts.by_node), (vec![0, 1, 1, 0], 2, vec![1, 2]));
    assert!(p.notes.iter().any(|n| n.text.contains("outside the memory of every node")));
}

#[test]
fn rule_9_perf_itself_is_charged_to_nobody() {
    let p = Script::new().object(1, 1, 9, true).run();
    assert_eq!((owners(&p), p.counts.charged, p.groups[0].charged), (vec!["/"], 0, false));
}

#[test]
fn names_come_from_the_free_then_from_the_majority_then_from_the_size() {
    let mut s = Script::new();
    for ptr in 1..=5 {
        s.object(10, ptr, 9, true);
    }
    s.free(1, Some("filp")).free(2, Some("filp")).free(3, Some("dentry")).free(4, None);
    let p = s.object(10, 8, 10, true).run();
    assert_eq!(caches(&p), ["filp", "filp", "dentry", "filp", "filp", "?0xa/192"]);

    let table = "C cred 176 192 0 21\nC kmalloc-192 192 192 0 21\n";
    let p = Script::new().geometry(table).object(10, 8, 10, true).run();
    assert_eq!(caches(&p), ["cred"]);
}

#[test]
fn merged_names_are_one_cache_with_its_geometry() {
    let table = "C :A-0000192 192 192 0 21\nA cred :A-0000192\nA pid_2 :A-0000192\nA file :A-0000192\n";
    let mut s = Script::new().geometry(table);
    s.object(10, 1, 9, true).object(10, 2, 8, true).object(10, 3, 8, true);
    let p = s.free(1, Some("cred")).free(2, Some("pid_2")).free(3, Some("pid_2")).run();
    assert_eq!(p.caches.len(), 1);
    let c = &p.caches[0];
    assert_eq!((c.name.as_str(), c.slot_size, c.geometry.unwrap().objects), ("pid_2", 192, 21));
    assert_eq!(c.aliases, ["cred", "file"]);
}

#[test]
fn geometry_that_contradicts_the_events_is_told_and_not_used() {
    let mut s = Script::new().geometry("C x 8 8 0 512\nC dentry 200 200 0 20\n");
    let p = s.object(10, 1, 9, true).free(1, Some("dentry")).run();
    assert!(p.caches[0].geometry.is_none());
    let told =
        p.notes.iter().any(|n| n.text.starts_with("slabgeom.txt, line 2: dentry has slots of 200 bytes"));
    assert!(told, "{:?}", p.notes);
}

#[test]
fn sizes_that_no_slab_object_has_are_left_out() {
    let mut s = Script::new();
    for (ptr, size) in [(1, 0), (2, u32::MAX), (3, 64 << 20)] {
        let alloc =
            Alloc { ptr, site: 7, size, gfp: 0, name: None, node: -1, kmalloc: false, accounted: false };
        s.event(10, Kind::Alloc(alloc));
    }
    let p = s.run();
    assert_eq!((allocs(&p).len(), p.counts.allocations), (1, 3));
    assert!(p.notes.iter().any(|n| n.text.starts_with("2 objects have a size")));
}

#[test]
fn mounts_are_those_of_file_systems_that_succeeded() {
    let mut s = Script::new();
    for (flags, ret) in [(0, 0), (0, -1), (4096, 0), (1 << 18, 0), (1, 0)] {
        s.event(10, Kind::MountEnter { flags }).event(10, Kind::MountExit { ret });
    }
    s.event(10, Kind::UmountEnter).event(10, Kind::UmountExit { ret: -16 });
    s.event(10, Kind::UmountEnter).event(10, Kind::UmountExit { ret: 0 });
    let p = s.event(10, Kind::UmountEnter).object(10, 1, 9, true).run();
    let steps: Vec<_> =
        p.ops.iter().filter(|o| o.kind != OpKind::Create).map(|o| (o.kind, o.slot, o.group.0)).collect();
    assert_eq!(
        steps,
        [
            (OpKind::Mount, 0, 5),
            (OpKind::Mount, 1, 5),
            (OpKind::Unmount, 1, 5),
            (OpKind::Unmount, 2, 5),
            (OpKind::Alloc, 0, 5)
        ]
    );
    assert_eq!(p.ops[p.peak_op].kind, OpKind::Alloc);
}
