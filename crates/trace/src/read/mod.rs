//! File formats: from bytes or text to [`event::Event`]s in time order. Nothing here knows of cgroups.
//!
//! * [`perf`] walks a `perf.data` (its [`head`] first), takes samples apart ([`plan`], [`sample`],
//!   [`layout`], [`format`]) and
//!   puts them in [`order`].
//! * [`script`] reads what `perf script` prints.
//!
//! The types and the attribute parser are those of `linux-perf-data`; the walk over the records is ours, because its
//! iterator gives 1.3 M samples/s of churn300 before anything is done with them, where ours resolves 3.6 to 4.7 M/s. It
//! also ends at the first fault of a cut file and believes the sizes it reads; that both see the same samples, byte for
//! byte, a test holds (`same`).

pub(crate) mod bytes;
pub(crate) mod event;
pub(crate) mod format;
pub(crate) mod head;
pub(crate) mod layout;
pub(crate) mod order;
pub(crate) mod perf;
pub(crate) mod plan;
#[cfg(test)]
mod same;
pub(crate) mod sample;
pub(crate) mod script;
pub(crate) mod unzip;

use event::{Event, Names};
use hashbrown::HashMap;

/// What a file told beside its events.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    /// Names of the events recorded, in the order of the file; `Event::sample` counts in this.
    pub(crate) events: Vec<String>,
    /// `uname -r` and `-m`, as one text.
    pub(crate) kernel: Option<String>,
    /// Bytes; 0: not told.
    pub(crate) page_size: u32,
    /// 0: not told.
    pub(crate) cpus: u16,
    /// The node of each CPU; empty: not told.
    pub(crate) cpu_node: Vec<u8>,
    /// Records that perf says it lost.
    pub(crate) lost: u64,
    /// Where the file broke off or became unreadable.
    pub(crate) truncated: Option<u64>,
    /// Symbols of call sites, where the file gives them in place of addresses.
    pub(crate) symbols: HashMap<u64, String>,
    /// Whether the file tells that a task ran in an interrupt.
    pub(crate) tells_interrupts: bool,
    /// Whether `kmem_cache_alloc` tells if an object is accounted (6.1 and later).
    pub(crate) tells_accounted: bool,
    /// What the user should know.
    pub(crate) notes: Vec<String>,
    /// Every sample as it was taken apart, in the order of the file.
    #[cfg(test)]
    pub(crate) seen: Vec<same::Seen>,
}

impl Recording {
    /// The number of an event name, made if new.
    pub(crate) fn event(&mut self, name: &str) -> u16 {
        let i = self.events.iter().position(|n| n == name).unwrap_or_else(|| {
            self.events.push(name.to_owned());
            self.events.len() - 1
        });
        i.min(usize::from(u16::MAX)) as u16
    }
}

/// Takes what a reader finds.
pub(crate) trait Sink {
    /// The next event.
    fn event(&mut self, event: &Event, names: &Names);
    /// The symbol of a call site, before the first event that has it; only from texts.
    fn symbol(&mut self, site: u64, symbol: &str);
    /// There was no further event.
    fn end(&mut self, names: &Names);
}
