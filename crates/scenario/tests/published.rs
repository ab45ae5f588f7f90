//! The two published list_lru experiments at a scale for tests: what is built equals the formula, the formula at the
//! published scale gives the published figures, and memory is kept to.

use tenalloc_scenario::table::{Origin, Table};
use tenalloc_scenario::{Error, Outcome, bharata, muchun};

fn table<'a>(outcome: &'a Outcome, title: &str) -> &'a Table {
    outcome.tables.iter().find(|t| t.title.contains(title)).expect("a table of this title")
}

fn column(table: &Table, name: &str) -> Vec<Option<f64>> {
    let at = table.columns.iter().position(|c| c.name.starts_with(name)).expect("a column of this name");
    table.rows.iter().map(|row| row.values[at]).collect()
}

fn row(table: &Table, name: &str) -> Vec<Option<f64>> {
    table.rows.iter().find(|row| row.name.starts_with(name)).expect("a row of this name").values.clone()
}

/// Whatever the numbers: what was built is what the formula says, for every release.
#[test]
fn steps_of_the_series_as_built_are_the_formula() {
    for (groups, mounts, nodes, users) in [(1, 1, 1, 0), (50, 20, 2, 3), (300, 7, 4, 1), (5, 9, 3, 5)] {
        let params = muchun::Params { groups, mounts, nodes, users, memory: Some(256 << 20) };
        let plan = muchun::Plan::new(params).unwrap();
        assert_eq!(plan.notice(), None);
        let outcome = plan.run().unwrap();
        for table in [table(&outcome, "list_lru of"), table(&outcome, "what the series left")] {
            for (built, formula) in column(table, "kernel").iter().zip(column(table, "formula")) {
                assert!(built.is_some_and(|bytes| bytes > 0.0));
                assert!(formula.is_none() || *built == formula, "{table:#?}");
            }
        }
        assert!(column(table(&outcome, "saves"), "published").iter().all(Option::is_none));
        let one_user = outcome.tables.iter().any(|t| t.title.contains("one group using each"));
        assert_eq!(one_user, users == 0, "nobody's mounts are shown with one user, too");
    }
}

/// The published scale with little memory: fewer mounts are built, every mount costs the same, so the savings of all are
/// exact: 2,500 / 14,998 / 2,500 MiB.
#[test]
fn the_published_steps_from_a_part_of_the_mounts() {
    let params = muchun::Params { memory: Some(200 << 20), ..muchun::Params::default() };
    let plan = muchun::Plan::new(params).unwrap();
    assert!(plan.notice().is_some_and(|n| n.contains("of 10,000 mounts") && n.contains("of 10,000 groups")));
    let outcome = plan.run().unwrap();
    let saved = table(&outcome, "saves");
    assert_eq!(saved.columns[2].origin, Origin::Published);
    assert_eq!(column(saved, "published"), [Some(2507.0), Some(15_062.0), Some(2528.0)]);
    for name in ["built ×", "formula"] {
        let mib: Vec<f64> = column(saved, name).into_iter().map(|v| v.unwrap().round()).collect();
        assert_eq!(mib, [2500.0, 14_998.0, 2500.0], "{name}");
    }
    let state = table(&outcome, "what the series left");
    let all: Vec<f64> = column(state, "all groups").into_iter().map(|v| v.unwrap().floor()).collect();
    assert_eq!(all, [2500.0, 3105.0]);
    assert_eq!(outcome.charts[0].bars.len(), 10, "six as built, four published");
}

#[test]
fn heads_of_containers_as_built_are_the_formula() {
    for (containers, mounts, nodes) in [(1, 1, 1), (60, 7, 2), (13, 3, 4)] {
        let params = bharata::Params { containers, mounts, nodes, memory: Some(256 << 20) };
        let outcome = bharata::Plan::new(params).unwrap().run().unwrap();
        let built = table(&outcome, "heads of").clone();
        assert!(column(&built, "published").iter().all(Option::is_none));
        let built = outcome.tables.iter().find(|t| t.title.ends_with("built")).unwrap();
        assert_eq!(column(built, "during"), column(built, "formula"));
        let removed = column(built, "groups removed");
        let eager = removed[0].unwrap();
        assert!(eager > 0.0 && removed[1..].iter().all(|heads| *heads == Some(0.0)), "{removed:?}");
        assert!(column(built, "unmounted").iter().all(|heads| *heads == Some(0.0)));
    }
}

/// The counts of the post by formula, and how far the published ones are from them.
#[test]
fn the_published_counts_of_heads() {
    let params = bharata::Params { memory: Some(100 << 20), ..bharata::Params::default() };
    let plan = bharata::Plan::new(params).unwrap();
    assert!(plan.notice().is_some_and(|notice| notice.contains("of 10,000 containers")));
    let outcome = plan.run().unwrap();
    let counts = table(&outcome, "list heads of 10,000");
    let during = row(counts, "without: during");
    assert_eq!(during[..2], [Some(3_440_080_000.0), Some(3_442_231_296.0)]);
    assert_eq!(row(counts, "with: during")[..2], [Some(280_000.0), Some(278_528.0)]);
    assert_eq!(row(counts, "without: after")[..2], [Some(0.0), Some(388_755_456.0)]);
    let bytes = table(&outcome, "memory of 10,000");
    let gib: Vec<f64> = column(bytes, "formula").into_iter().map(|v| (v.unwrap() * 10.0).round()).collect();
    assert_eq!(gib, [1025.0, 342.0, 1367.0]);
    // 280,000 heads are 137 slabs, 136 were published; 43.8 mounts more would make up the rest without the patch.
    let notes = outcome.notes.join("\n");
    assert!(notes.contains("43.8 mounts") && notes.contains("1,472 objects"), "{notes}");
}

/// What is said to be needed for a part is what the process takes at most: alone in its process, so in the command's tests.
#[test]
fn what_cannot_be_is_refused() {
    let refused = |result: Result<_, Error>| match result {
        Err(Error::Refused(text)) => text,
        other => panic!("{other:?}"),
    };
    let muchun = |params| refused(muchun::Plan::new(params).map(drop));
    let bharata = |params| refused(bharata::Plan::new(params).map(drop));
    let of = muchun::Params { memory: Some(1 << 20), ..muchun::Params::default() };
    assert!(muchun(of).contains("--memory"));
    assert!(muchun(muchun::Params { users: 10_001, ..of }).contains("10000 groups"));
    assert!(muchun(muchun::Params { groups: 0, ..of }).contains("65,534"));
    assert!(muchun(muchun::Params { nodes: 65, ..of }).contains("64 nodes"));
    assert!(muchun(muchun::Params { memory: Some(u64::MAX), ..of }).contains("free here"));
    let of = bharata::Params { memory: Some(1 << 20), ..bharata::Params::default() };
    assert!(bharata(of).contains("--memory"));
    assert!(bharata(bharata::Params { mounts: 0, ..of }).contains("10,000 mounts"));
    assert!(bharata(bharata::Params { containers: 70_000, ..of }).contains("65,534"));
}
