//! Properties: no text in any file of a host, and no number that a user may give, makes a plan panic; each is answered by a
//! plan or by an error of one line.

use std::fs;

use proptest::prelude::*;
use tenalloc_plan::host::Host;
use tenalloc_plan::report::{csv, html, json, table};
use tenalloc_plan::sweep::Range;
use tenalloc_plan::vectors::SlabTable;
use tenalloc_plan::{Plan, Request};

const FILES: [&str; 11] = [
    "proc/sys/kernel/osrelease",
    "proc/self/smaps",
    "proc/self/mountinfo",
    "proc/7/mountinfo",
    "proc/meminfo",
    "proc/cmdline",
    "proc/cgroups",
    "proc/slabinfo",
    "sys/devices/system/node/possible",
    "sys/devices/system/cpu/possible",
    "sys/fs/cgroup/cgroup.stat",
];

/// Rubbish, and rubbish in the shape of what is expected.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,60}",
        "(memory|cpu|Slab:|nr_subsys_memory|MemTotal:|KernelPageSize:)( |\t)[0-9]{0,22}( |\t)?[0-9]{0,20}( kB)?( 1)?\n",
        "[0-9]{1,20}(-[0-9]{1,20})?(,[0-9]{1,20})*\n",
        "[0-9]{0,6}\\.[0-9]{0,6}(-[a-z]{0,5})?",
        "1 1 [0-9]{1,10}:[0-9]{1,10} / /x rw - (cgroup|cgroup2|tmpfs) x (rw,memory|rw)\n",
        "slabinfo - version: 2.1\n([a-z]{1,9}( [0-9]{1,20}){5} : tunables 0 0 0 : slabdata( [0-9]{1,20}){3}\n){0,3}",
    ]
}

fn number() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![Just(None), (0_u64..20_000).prop_map(Some), any::<u64>().prop_map(Some)]
}

fn range() -> impl Strategy<Value = Option<Range>> {
    prop_oneof![
        number().prop_map(|n| n.map(Range::one)),
        (1_u64..70_000, 0_u64..2_000_000).prop_map(|(a, b)| format!("{a}..{}", a + b).parse().ok()),
    ]
}

fn answered(request: &Request, host: &Host) {
    match Plan::new(request, host) {
        Ok(plan) => {
            let mut out = Vec::new();
            table::write(&plan, &mut out, 80).unwrap();
            html::write(&plan, &mut out).unwrap();
            csv::write(&plan, &mut out).unwrap();
            json(&plan, &mut out).unwrap();
        }
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_host_has_an_answer(texts in prop::collection::vec(prop::option::of(text()), FILES.len())) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in FILES.iter().zip(&texts) {
            if let Some(text) = text {
                let place = root.path().join(path);
                fs::create_dir_all(place.parent().unwrap()).unwrap();
                fs::write(place, text).unwrap();
            }
        }
        answered(&Request::default(), &Host::read(root.path()));
    }

    #[test]
    fn any_numbers_have_an_answer(
        kernel in (0_u16..10, 0_u16..30), nodes in number(), cpus in number(), peak_groups in number(),
        lists_per_mount in number(), extra_shrinkers in number(), page_size in number(), groups in range(),
        mounts in range(), used_per_group in prop::option::of(any::<f64>()), nokmem in any::<bool>(),
        slabinfo in text(),
    ) {
        let page = page_size.unwrap_or(4096);
        let slabs = SlabTable::parse(&slabinfo, page, |_| true).ok().map(|table| (table, "a file".to_owned()));
        let request = Request {
            kernel: format!("{}.{}", kernel.0, kernel.1).parse().ok(),
            nodes, cpus, peak_groups, lists_per_mount, extra_shrinkers, groups, mounts, used_per_group, slabs,
            nokmem: Some(nokmem),
            page_size: page_size.map(|_| 65_536),
        };
        answered(&request, &Host::default());
    }
}
