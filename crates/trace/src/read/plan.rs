//! What to do with the samples of each recorded event, worked out from its attribute and its format text.

use super::Recording;
use super::bytes;
use super::format::Formats;
use super::head::Attribute;
use super::layout::Layout;
use super::sample::Places;
use crate::error::Error;
use hashbrown::HashMap;

/// For the samples of one event.
pub(crate) struct Plan {
    /// Number of the event's name.
    pub(crate) sample: u16,
    /// `None`: only counted.
    pub(crate) layout: Option<Layout>,
    pub(crate) places: Places,
}

/// For all samples of a file.
pub(crate) struct Plans {
    /// One per attribute; `None`: its samples cannot be placed in time and are left out.
    plans: Vec<Option<Plan>>,
    by_id: HashMap<u64, usize>,
    /// Where a sample's event id lies; `None`: there is one event only.
    id_at: Option<usize>,
}

impl Plans {
    /// `at` is the offset of the first sample, for errors; event names go into `recording`.
    pub(crate) fn new(
        attributes: &[Attribute],
        formats: Option<&Formats>,
        file: &str,
        at: u64,
        recording: &mut Recording,
    ) -> Result<Self, Error> {
        let Some(formats) = formats else {
            let what = "samples come before the tracepoint formats (TRACING_DATA)";
            return Err(Error::at(file, at, what, "record tracepoints with `perf record`, as root"));
        };
        let mut made = Self { plans: Vec::new(), by_id: HashMap::new(), id_at: None };
        let mut slab = false;
        for (i, attribute) in attributes.iter().enumerate() {
            made.by_id.extend(attribute.ids.iter().map(|&id| (id, i)));
            let format = attribute.tracepoint.and_then(|id| formats.by_id(id));
            let layout = format.map(Layout::new).transpose().map_err(|what| {
                let help = "the kernel's tracepoint is unlike those of 5.10 to 6.18; please report this";
                Error::at(file, at, what, help)
            })?;
            let needed = layout.as_ref().is_some_and(Layout::is_slab);
            slab |= needed;
            recording.tells_accounted &= !layout.as_ref().is_some_and(Layout::hides_accounted);
            let name = format.map_or_else(|| format!("event {i}"), |f| f.name.clone());
            let Some(places) = attribute.places else {
                if needed {
                    let what =
                        format!("samples of {name} lack the task, the time or the tracepoint's record");
                    let help = "record with `tenalloc record`, or `perf record -e` without --no-samples";
                    return Err(Error::at(file, at, what, help));
                }
                made.plans.push(None);
                continue;
            };
            if attributes.len() > 1 {
                if places.id.is_none() || made.id_at.is_some_and(|x| Some(x) != places.id) {
                    let what = "samples of several events do not tell which event they are of";
                    return Err(Error::at(file, at, what, "record with `tenalloc record`"));
                }
                made.id_at = places.id;
            }
            made.plans.push(Some(Plan { sample: recording.event(&name), layout, places }));
        }
        if !slab {
            let have: Vec<_> = formats.events.iter().map(|f| f.name.as_str()).collect();
            let what = format!("no slab events were recorded (only: {})", have.join(", "));
            let help = "record with `tenalloc record`, or -e kmem:kmalloc and the others";
            return Err(Error::at(file, at, what, help));
        }
        Ok(made)
    }

    /// The plan for a sample.
    #[inline]
    pub(crate) fn of(&self, body: &[u8]) -> Option<&Plan> {
        let index = match self.id_at {
            Some(at) => *self.by_id.get(&bytes::u64(body, at)?)?,
            None => 0,
        };
        self.plans.get(index)?.as_ref()
    }
}
