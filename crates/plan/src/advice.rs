//! What to do about it: the largest cause, what each way out would give back, and which one to take.

use serde::Serialize;
use tenalloc_designs::kernel::generation::Generation;
use tenalloc_replay::report::units::{bytes, count};

use crate::situation::{MOST_GROUPS, Situation};
use crate::spend::{self, Bytes, CAUSES, Row};

/// Below this share of memory, and below this many bytes where memory is not known, nothing is worth a reboot.
const WORTH_SHARE: f64 = 0.005;
const WORTH_BYTES: u64 = 64 << 20;

/// How an upgrade begins.
const RUN: &str = "run Linux";

/// A way out and what it gives back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Way {
    /// What to do.
    pub what: String,
    /// Bytes that it gives back; negative: it costs more.
    pub saves: i64,
    /// What else is to be known.
    pub note: String,
}

/// What to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// The largest cause, and its bytes.
    pub largest: Option<(&'static str, u64)>,
    /// The answer in one or two sentences.
    pub verdict: String,
    /// All ways out, the best first.
    pub ways: Vec<Way>,
}

/// Advice for the kernel of the situation, on a host with `memory` bytes.
pub fn advise(at: &Situation, rows: &[Row], memory: Option<u64>) -> Advice {
    let Some((row, now)) = rows.iter().find(|r| r.running).and_then(|r| Some((r, r.bytes?))) else {
        let verdict =
            format!("Linux has ids for {MOST_GROUPS} groups: so many as {} it cannot have.", at.groups);
        return Advice { verdict, ..Advice::default() };
    };
    let (cause, largest) = now.largest();
    let total = now.total();
    let mut ways: Vec<Way> = fewer_mounts(at, now).into_iter().chain(nokmem(at, now)).collect();
    ways.sort_by_key(|way| std::cmp::Reverse(way.saves));
    // An upgrade takes nothing away: it goes first if it gives back half.
    if let Some(way) = upgrade(rows, row, now) {
        let first = u64::try_from(way.saves).is_ok_and(|saves| saves >= total / 2);
        let place = if first { 0 } else { ways.iter().filter(|other| other.saves > way.saves).count() };
        ways.insert(place, way);
    }
    let of_memory = memory.filter(|m| *m > 0).map(|m| total as f64 / m as f64);
    let small = of_memory.map_or(total < WORTH_BYTES, |share| share < WORTH_SHARE);
    let share = of_memory.map_or(String::new(), |share| {
        format!(", {} of its memory", tenalloc_replay::report::units::round_percent(share))
    });
    let verdict = if small {
        format!(
            "Nothing worth a change: {} in all{share}; most of it {cause}, {}.",
            bytes(total),
            bytes(largest)
        )
    } else {
        let gives = |way: &Way| format!("{} ({} less)", way.what, bytes(way.saves.unsigned_abs()));
        let best = match ways.iter().find(|way| way.saves > 0) {
            Some(way) if way.what.starts_with(RUN) => format!("Best: {}.", gives(way)),
            Some(way) => format!("No later release cures that. Best: {}.", gives(way)),
            None => "No later release, and no option, spends less.".to_owned(),
        };
        let each = each(at, cause, largest);
        format!("{} in all{share}; most of it {cause}, {}{each}. {best}", bytes(total), bytes(largest))
    };
    Advice { largest: Some((cause, largest)), verdict, ways }
}

/// Shrinker state is the same for every group, mount and node: how much that is for one.
fn each(at: &Situation, cause: &str, bytes: u64) -> String {
    let triples = at.groups as f64 * at.mounts as f64 * at.nodes as f64;
    match cause {
        "shrinker state" if triples > 0.0 => {
            format!(" ({:.1} B for each group, mount and node, used or not)", bytes as f64 / triples)
        }
        _ => String::new(),
    }
}

/// What `now` has more than `then`.
fn saved(now: Bytes, then: Bytes) -> i64 {
    let difference = i128::from(now.total()) - i128::from(then.total());
    i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
}

/// The oldest release above that gives back nearly all that any gives.
fn upgrade(rows: &[Row], running: &Row, now: Bytes) -> Option<Way> {
    let place = rows.iter().position(|row| row == running)?;
    let later = || {
        let released = |row: &&Row| Generation::by_name(row.design).is_some_and(|g| g.since.is_some());
        rows.iter().skip(place + 1).filter(released).filter_map(|row| Some((row, saved(now, row.bytes?))))
    };
    let best = later().map(|(_, saves)| saves).max()?;
    let (row, saves) = later().find(|(_, saves)| *saves as f64 >= 0.95 * best as f64)?;
    let since = row.since.as_deref()?;
    let what = format!("{RUN} {since} or later");
    let then = row.bytes?.parts();
    let falls = CAUSES
        .into_iter()
        .zip(now.parts())
        .zip(then)
        .map(|((cause, now), then)| (cause, now.saturating_sub(then)));
    let note = match falls.max_by_key(|(_, less)| *less) {
        Some((cause, less)) if best > 0 => format!("of it {cause} {}", bytes(less)),
        _ => "no later release spends less".into(),
    };
    Some(Way { what, saves, note })
}

/// What half the mounts would give back.
fn fewer_mounts(at: &Situation, now: Bytes) -> Option<Way> {
    let mounts = at.mounts / 2;
    let used_per_group = at.used_per_group.map(|used| used.min(mounts as f64));
    let then = spend::running(&Situation { mounts, used_per_group, ..at.clone() })?;
    let saves = saved(now, then);
    let each = saves / i64::try_from(at.mounts - mounts).ok().filter(|n| *n > 0)?;
    let note = format!(
        "about {} a mount; share read-only ones, drop tmpfs that stay empty",
        bytes(each.unsigned_abs())
    );
    Some(Way { what: format!("half the mounts, {}", count(mounts)), saves, note })
}

/// What booting without kernel memory accounting would give back.
fn nokmem(at: &Situation, now: Bytes) -> Option<Way> {
    if at.nokmem {
        return None;
    }
    let then = spend::running(&Situation { nokmem: true, ..at.clone() })?;
    let note = match then.shrinkers {
        0 => "groups are no longer charged for kernel objects".to_owned(),
        stays => format!(
            "groups are no longer charged for kernel objects; the shrinker state stays, {}",
            bytes(stays)
        ),
    };
    Some(Way { what: "boot with cgroup.memory=nokmem".into(), saves: saved(now, then), note })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::situation::tests::ten_thousand;

    fn of(at: &Situation, memory: Option<u64>) -> Advice {
        advise(at, &spend::rows(at), memory)
    }

    #[test]
    fn an_old_kernel_is_sent_to_the_release_that_cured_it() {
        let advice = of(&ten_thousand("5.10"), Some(64 << 30));
        assert_eq!(advice.largest, Some(("list heads", 20_000 * 2 * 12_286 * 32)));
        let ways: Vec<&str> = advice.ways.iter().map(|way| way.what.as_str()).collect();
        let [half, kmem] = ["half the mounts, 5,000", "boot with cgroup.memory=nokmem"];
        assert_eq!(ways, ["run Linux 5.18 or later", kmem, half]);
        assert!(
            advice
                .verdict
                .starts_with("19.6 GiB in all, 31 % of its memory; most of it list heads, 14.6 GiB.")
        );
    }

    #[test]
    fn on_todays_kernel_nothing_but_fewer_mounts_helps() {
        let advice = of(&ten_thousand("6.12"), Some(64 << 30));
        assert_eq!(advice.largest.map(|l| l.0), Some("shrinker state"));
        assert!(
            advice.verdict.contains("(16.3 B for each group, mount and node, used or not)"),
            "{}",
            advice.verdict
        );
        assert!(
            advice
                .verdict
                .ends_with("No later release cures that. Best: half the mounts, 5,000 (1.52 GiB less)."),
            "{}",
            advice.verdict
        );
        let kmem = advice.ways.iter().find(|way| way.what.contains("nokmem")).unwrap();
        assert!(kmem.saves < 64 << 20 && kmem.note.contains("the shrinker state stays, 3.0"), "{kmem:?}");
    }

    #[test]
    fn a_small_host_is_left_alone() {
        let at = Situation { groups: 60, peak_groups: 60, mounts: 30, nodes: 1, ..ten_thousand("6.1") };
        assert!(of(&at, Some(16 << 30)).verdict.starts_with("Nothing worth a change: "));
        assert!(of(&at, None).verdict.starts_with("Nothing worth a change: "));
        assert!(
            of(&Situation { nokmem: true, ..at }, None).ways.iter().all(|way| !way.what.contains("nokmem"))
        );
    }

    #[test]
    fn what_cannot_be_is_said() {
        let at = Situation { groups: 70_000, peak_groups: 70_000, ..ten_thousand("6.12") };
        let advice = of(&at, None);
        assert_eq!((advice.largest, advice.ways.len()), (None, 0));
        assert!(advice.verdict.contains("65535"));
        let none = Situation { mounts: 0, groups: 0, peak_groups: 0, ..at };
        assert!(!of(&none, None).verdict.is_empty());
    }
}
