//! What a call site means (rules 3 and 7): most mean nothing, a few tell who pays, or that the object is the recorded
//! kernel's own bookkeeping.
//!
//! A recording names its call sites one by one (`callsites.tsv`, the text of `perf script`) or brings the kernel's
//! table of functions (`kallsyms.tsv`), in which a site is looked up.

use hashbrown::HashMap;

/// The kernel functions that make a cgroup's own structures. Compilers so far put the second and third, which nobody
/// else calls, into the first.
const NEW_GROUP: [&str; 3] = ["mem_cgroup_css_alloc", "mem_cgroup_alloc", "alloc_mem_cgroup_per_node_info"];
/// The kernel's owner vectors under the names they had from 5.9 on; designs model them themselves.
const OWNER_VECTORS: [&str; 3] =
    ["alloc_slab_obj_exts", "memcg_alloc_slab_cgroups", "memcg_alloc_page_obj_cgroups"];

/// What an allocation there is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nothing special.
    Other,
    /// A new cgroup's structures: its parent pays.
    NewGroup,
    /// A slab's vector of owners.
    OwnerVector,
}

impl Role {
    fn of(symbol: &str) -> Self {
        // The compiler may split a function or make another of it: `f.isra.0`, `f.constprop.0`, `f.cold`; texts add
        // an offset: `f+0x4d`.
        let symbol = symbol.split(['.', '+']).next().unwrap_or(symbol);
        if NEW_GROUP.contains(&symbol) {
            Self::NewGroup
        } else if OWNER_VECTORS.contains(&symbol) {
            Self::OwnerVector
        } else {
            Self::Other
        }
    }
}

/// The call sites and functions that mean something.
#[derive(Debug, Default)]
pub(crate) struct Sites {
    by_address: HashMap<u64, Role>,
    /// First byte, first byte of the next function, role: a handful.
    functions: Vec<(u64, u64, Role)>,
}

impl Sites {
    /// A call site and its symbol.
    pub(crate) fn add(&mut self, site: u64, symbol: &str) {
        let role = Role::of(symbol);
        if role != Role::Other {
            self.by_address.insert(site, role);
        }
    }

    /// Every function of the kernel, ascending.
    pub(crate) fn add_functions(&mut self, functions: &[(u64, String)]) {
        let ends = functions.iter().skip(1).map(|f| f.0).chain([u64::MAX]);
        let known = functions.iter().zip(ends).map(|((start, symbol), end)| (*start, end, Role::of(symbol)));
        self.functions.extend(known.filter(|f| f.2 != Role::Other));
    }

    /// Whether any site or function has this role.
    pub(crate) fn knows(&self, role: Role) -> bool {
        self.by_address.values().any(|r| *r == role) || self.functions.iter().any(|f| f.2 == role)
    }

    /// What an allocation from `site` is for.
    #[inline]
    pub(crate) fn role(&self, site: u64) -> Role {
        if let Some(function) = self.functions.iter().find(|f| f.0 <= site && site < f.1) {
            return function.2;
        }
        if self.by_address.is_empty() {
            return Role::Other;
        }
        self.by_address.get(&site).copied().unwrap_or(Role::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_found_by_address_and_by_function() {
        let mut s = Sites::default();
        s.add(7, "alloc_slab_obj_exts.constprop.0+0x10");
        s.add(8, "dup_fd");
        assert_eq!((s.role(7), s.role(8), s.knows(Role::NewGroup)), (Role::OwnerVector, Role::Other, false));

        let mut s = Sites::default();
        let table = [(100, "a"), (200, "mem_cgroup_css_alloc.isra.0"), (300, "b"), (400, "mem_cgroup_alloc")];
        s.add_functions(&table.map(|(at, name)| (at, name.to_owned())));
        assert_eq!((s.role(199), s.role(200), s.role(299)), (Role::Other, Role::NewGroup, Role::NewGroup));
        // Behind the last function there is nothing that could end it.
        assert_eq!((s.role(300), s.role(5000)), (Role::Other, Role::NewGroup));
        assert!(s.knows(Role::NewGroup) && !s.knows(Role::OwnerVector));
    }
}
