//! The machine's caches, which the kernel shows to root alone.

use super::root::{Root, why};
use super::{Host, Read};
use crate::vectors::{SlabTable, is_well_known};

pub(super) fn read(root: &Root, host: &mut Host) {
    const SLABINFO: &str = "/proc/slabinfo";
    let page = host.page_size.as_ref().map_or(4096, |page| page.value);
    let accounted =
        |name: &str| is_accounted(root.link(&format!("/sys/kernel/slab/{name}")).as_deref(), name);
    match root.text(SLABINFO) {
        Ok(text) => match SlabTable::parse(&text, page, accounted) {
            Ok(value) => host.slabs = Some(Read { value, from: SLABINFO.into() }),
            Err(error) => host.missing(SLABINFO, error),
        },
        Err(error) => {
            let why =
                format!("{}, or give --slabinfo FILE; owner vectors and slack are left out", why(&error));
            host.missing(SLABINFO, why);
        }
    }
}

/// Whether objects of a cache have owners: by the folder that its name links to (`:aA-0000192`), or its name.
pub(super) fn is_accounted(link: Option<&str>, name: &str) -> bool {
    let id = link.and_then(|link| link.rsplit('/').next()).unwrap_or_default();
    match id.strip_prefix(':').and_then(|id| id.split_once('-')) {
        Some((flags, _)) => flags.contains('A'),
        None => is_well_known(name),
    }
}
