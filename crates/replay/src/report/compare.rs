//! What several views say in the same words: the one-sentence result, and rows joined over the designs.
//!
//! Apart from the model, because these are readings of it: a program that reads the JSON makes its own.

use std::collections::HashMap;
use std::hash::Hash;

use super::units::{bytes, round_percent};
use super::{Cache, Design, Group, Report};

/// The last design against the first, at the peak, with all bookkeeping.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saving {
    /// Bytes that the first design needs.
    pub before: u64,
    /// Bytes that the last design needs.
    pub after: u64,
}

impl Saving {
    /// Between the first and the last of two designs or more.
    pub fn of(report: &Report) -> Option<Self> {
        match report.designs.as_slice() {
            [first, .., last] => {
                Some(Self { before: first.at_peak.usage.total(), after: last.at_peak.usage.total() })
            }
            _ => None,
        }
    }
    /// Bytes saved; negative when the last design needs more.
    pub fn bytes(&self) -> i128 {
        i128::from(self.before) - i128::from(self.after)
    }
    /// Bytes saved / bytes of the first design; `None` when that needed nothing.
    pub fn ratio(&self) -> Option<f64> {
        (self.before > 0).then(|| self.bytes() as f64 / self.before as f64)
    }
}

/// The report with one design for each kind of slabs, the first that has it: for views that have no lists to show.
pub fn by_slabs(report: &Report) -> Report {
    let mut kept: Vec<usize> = Vec::new();
    for (i, design) in report.designs.iter().enumerate() {
        let same = |&k: &usize| report.designs.get(k).is_some_and(|d| d.slabs() == design.slabs());
        if !kept.iter().any(same) {
            kept.push(i);
        }
    }
    let mut slim = report.clone();
    let mut i = 0;
    slim.designs.retain(|_| {
        i += 1;
        kept.contains(&(i - 1))
    });
    for row in slim.truth.iter_mut().flat_map(|t| &mut t.rows) {
        row.designs = kept.iter().filter_map(|k| row.designs.get(*k).copied()).collect();
    }
    slim
}

/// The result in one sentence, for someone who has never heard of slabs.
pub fn headline(report: &Report) -> String {
    let Some(last) = report.designs.last() else {
        return "No design was replayed, so there is no result.".into();
    };
    let usage = last.at_peak.usage;
    if report.designs.iter().all(|d| d.at_peak.usage.slab == 0) {
        return "No slab object was live at any time: there is nothing to compare.".into();
    }
    let (Some(first), Some(saving)) = (report.designs.first(), Saving::of(report)) else {
        return format!(
            "{} would have needed {} of memory for {} of objects: {} of its slab pages in use at the peak.",
            last.name,
            bytes(usage.total()),
            bytes(usage.live),
            round_percent(usage.utilisation()),
        );
    };
    // Three moments of history: before slabs were shared, of late, and ours.
    if let [.., recent, ours] = report.designs.as_slice()
        && report.designs.len() > 2
        && ours.name == "tenalloc"
        && recent.name.starts_with("linux-")
        && first.name.starts_with("linux-")
        && first.at_peak.usage.total() > 0
    {
        let total = |d: &Design| d.at_peak.usage.total();
        let against = |d: &Design| match 1.0 - total(ours) as f64 / total(d).max(1) as f64 {
            less if less >= 0.0 => format!("{} less than {}", round_percent(less), linux(&d.name)),
            more => format!("{} more than {}", round_percent(-more), linux(&d.name)),
        };
        return format!(
            "On this machine {} would have spent {}, a recent kernel ({}) {}, tenalloc {}: {}, {}.",
            linux(&first.name),
            bytes(total(first)),
            linux(&recent.name),
            bytes(total(recent)),
            bytes(total(ours)),
            against(first),
            against(recent),
        );
    }
    let subject = subject(first, last);
    let (before, after) = (bytes(saving.before), bytes(saving.after));
    match saving.ratio() {
        _ if saving.bytes() == 0 => {
            format!("{subject} would have needed {after}, as much as {}.", first.name)
        }
        Some(ratio) if ratio > 0.0 => {
            format!("{subject} would have needed {after} instead of {before}: {} less.", round_percent(ratio))
        }
        Some(ratio) => {
            format!(
                "{subject} would have needed {after} instead of {before}: {} more.",
                round_percent(-ratio)
            )
        }
        None => format!("{subject} would have needed {after} where {} needs nothing.", first.name),
    }
}

/// The releases that a design stands for: `Linux 5.8` for `linux-5.8`.
fn linux(name: &str) -> String {
    if name == "linux-6.18" {
        // Sheaves for all caches and owners in slack: no 6.18 has both.
        return "Linux 6.18 to 7.0".into();
    }
    name.strip_prefix("linux-").map_or(name.to_owned(), |version| format!("Linux {version}"))
}

/// What the last design does that the first does not, where the figures show it; else its name.
fn subject(first: &Design, last: &Design) -> String {
    if first.sharing.shared() == 0 && last.sharing.shared() > 0 {
        "Sharing slabs between groups".into()
    } else {
        last.name.clone()
    }
}

/// One thing under every design, in the order of [`Report::designs`].
#[derive(Clone, Debug)]
pub struct Row<'a, T> {
    /// `None` where a design does not have it.
    pub by: Vec<Option<&'a T>>,
}

impl<'a, T> Row<'a, T> {
    /// The entry of the first design that has it.
    pub fn any(&self) -> Option<&'a T> {
        self.by.iter().flatten().copied().next()
    }
    /// The largest of `f` over the designs.
    fn max(&self, f: impl Fn(&T) -> u64) -> u64 {
        self.by.iter().flatten().map(|t| f(t)).max().unwrap_or(0)
    }
}

/// Caches by name and slot size; the ones that waste most under any design first.
pub fn caches(report: &Report) -> Vec<Row<'_, Cache>> {
    let lists = report.designs.iter().map(|d| d.caches.iter().collect());
    let mut rows = join(lists, |c: &Cache| (c.name.as_str(), c.slot_size));
    rows.sort_by_key(|r| std::cmp::Reverse(r.max(Cache::wasted)));
    rows
}

/// Groups by path; the ones charged most under any design first. A path that was removed and made again is
/// several groups: these are matched by what they use.
pub fn groups(report: &Report) -> Vec<Row<'_, Group>> {
    let lists = report.designs.iter().map(|d| {
        let mut list: Vec<&Group> = d.groups.iter().collect();
        list.sort_by_key(|g| std::cmp::Reverse((g.used, g.objects)));
        list
    });
    let mut rows = join(lists, |g: &Group| (g.path.as_str(), g.removed));
    rows.sort_by_key(|r| std::cmp::Reverse((r.max(|g| g.charged), r.max(|g| g.used))));
    rows
}

/// The n-th entry of a key in one list meets the n-th in the others.
fn join<'a, T, K: Hash + Eq>(
    lists: impl ExactSizeIterator<Item = Vec<&'a T>>,
    key: impl Fn(&'a T) -> K,
) -> Vec<Row<'a, T>> {
    let designs = lists.len();
    let mut rows: Vec<Row<'a, T>> = Vec::new();
    let mut places: HashMap<(K, usize), usize> = HashMap::new();
    for (i, list) in lists.enumerate() {
        let mut seen: HashMap<K, usize> = HashMap::new();
        for entry in list {
            let nth = seen.entry(key(entry)).or_default();
            let place = *places.entry((key(entry), *nth)).or_insert_with(|| {
                rows.push(Row { by: vec![None; designs] });
                rows.len() - 1
            });
            *nth += 1;
            if let Some(cell) = rows.get_mut(place).and_then(|r| r.by.get_mut(i)) {
                *cell = Some(entry);
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Sample, Usage};

    fn design(name: &str, slab: u64, shared: u64) -> Design {
        let usage = Usage { live: 1 << 20, slab, ..Usage::default() };
        let mut design = Design { name: name.into(), at_peak: Sample { t: 1.0, usage }, ..Design::default() };
        design.sharing.by_owners = vec![0, 5, shared];
        design
    }

    fn of(designs: Vec<Design>) -> String {
        headline(&Report { designs, ..Report::default() })
    }

    #[test]
    fn the_sentence_is_honest_both_ways() {
        let (old, new) = (design("linux-5.8", 20 << 20, 0), design("tenalloc", 12 << 20, 9));
        assert_eq!(
            of(vec![old.clone(), new.clone()]),
            "Sharing slabs between groups would have needed 12.0 MiB instead of 20.0 MiB: 40 % less."
        );
        assert_eq!(
            of(vec![new.clone(), old.clone()]),
            "linux-5.8 would have needed 20.0 MiB instead of 12.0 MiB: 67 % more."
        );
        assert_eq!(
            of(vec![new.clone(), new.clone()]),
            "tenalloc would have needed 12.0 MiB, as much as tenalloc."
        );
        assert!(
            of(vec![new])
                .starts_with("tenalloc would have needed 12.0 MiB of memory for 1.00 MiB of objects")
        );
        assert!(of(vec![design("a", 0, 0), design("b", 0, 0)]).contains("nothing to compare"));
        assert!(of(vec![design("a", 0, 0), old]).contains("where a needs nothing"));
        assert!(of(vec![]).contains("No design"));
    }

    #[test]
    fn a_design_between_two_releases_is_called_by_both() {
        let slabs = [("linux-5.8", 20), ("linux-6.18", 12), ("tenalloc", 9)];
        assert_eq!(
            of(slabs.map(|(name, mib)| design(name, mib << 20, 0)).to_vec()),
            "On this machine Linux 5.8 would have spent 20.0 MiB, a recent kernel (Linux 6.18 to 7.0) 12.0 MiB, \
             tenalloc 9.00 MiB: 55 % less than Linux 5.8, 25 % less than Linux 6.18 to 7.0."
        );
    }

    #[test]
    fn rows_join_over_designs_and_keep_namesakes_apart() {
        let cache =
            |name: &str, slot_size, slab| Cache { name: name.into(), slot_size, slab, ..Cache::default() };
        let group =
            |path: &str, used, charged| Group { path: path.into(), used, charged, ..Group::default() };
        let (mut a, mut b) = (design("a", 1, 0), design("b", 1, 0));
        a.caches = vec![cache("x", 64, 100), cache("x", 128, 300)];
        b.caches = vec![cache("y", 64, 900), cache("x", 64, 10)];
        a.groups = vec![group("/again", 5, 50), group("/again", 9, 40)];
        b.groups = vec![group("/again", 9, 20), group("/again", 5, 10)];
        let report = Report { designs: vec![a, b], ..Report::default() };

        let rows = caches(&report);
        let slabs: Vec<Vec<_>> =
            rows.iter().map(|r| r.by.iter().map(|c| c.map(|c| c.slab)).collect()).collect();
        assert_eq!(slabs, [vec![None, Some(900)], vec![Some(300), None], vec![Some(100), Some(10)]]);

        let charged: Vec<Vec<_>> = groups(&report)
            .iter()
            .map(|r| r.by.iter().flatten().map(|g| (g.used, g.charged)).collect())
            .collect();
        assert_eq!(charged, [vec![(5, 50), (5, 10)], vec![(9, 40), (9, 20)]]);
    }
}
