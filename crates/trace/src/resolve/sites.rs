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

/// Where a superblock is made.
const SUPERS: [&str; 1] = ["alloc_super"];
/// Where list_lrus of 5.18 and later make a group's part.
const LIST_USES: [&str; 1] = ["memcg_list_lru_alloc"];
/// Where list_lrus up to 5.17 made a head for every group.
const LIST_HEADS: [&str; 1] = ["__memcg_init_list_lru_node"];
/// Where a list_lru is made; the arrays of those heads too, where the compiler put that function into this one.
const LISTS: [&str; 1] = ["__list_lru_init"];
/// Where the arrays of those heads are made, and where larger ones.
const LIST_ARRAYS: [&str; 2] = ["memcg_init_list_lru_node", "memcg_init_list_lru"];
const LIST_GROWTH: [&str; 2] = ["memcg_update_all_list_lrus", "memcg_update_list_lru_node"];
/// Where a shrinker is made, and room for it in the groups.
const NEW_SHRINKERS: [&str; 1] = ["shrinker_alloc"];
/// Where the state of shrinkers in groups is made, through its names from 4.19 to 6.18.
const SHRINKERS: [&str; 8] = [
    "alloc_shrinker_info",
    "expand_shrinker_info",
    "expand_one_shrinker_info",
    "shrinker_unit_alloc",
    "memcg_expand_shrinker_maps",
    "memcg_expand_one_shrinker_map",
    "memcg_alloc_shrinker_maps",
    "alloc_shrinker_maps",
];

/// What an allocation there is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nothing special.
    Other,
    /// A new cgroup's structures: its parent pays.
    NewGroup,
    /// A slab's vector of owners.
    OwnerVector,
    /// A superblock.
    Super,
    /// A group's part of a list_lru; and, before it, a table of the groups above.
    ListUse,
    /// A head of the eager list_lru.
    ListHead,
    /// A list_lru; and, after it, arrays of such heads.
    List,
    /// An array of such heads.
    ListArray,
    /// Arrays of such heads for more groups.
    ListGrowth,
    /// A shrinker; and, after it, state of it in groups.
    NewShrinker,
    /// The state of shrinkers in groups.
    Shrinker,
}

impl Role {
    fn of(symbol: &str) -> Self {
        // The compiler may split a function or make another of it: `f.isra.0`, `f.constprop.0`, `f.cold`; texts add
        // an offset: `f+0x4d`.
        let symbol = symbol.split(['.', '+']).next().unwrap_or(symbol);
        let table: [(&[&str], Self); 10] = [
            (&NEW_GROUP, Self::NewGroup),
            (&OWNER_VECTORS, Self::OwnerVector),
            (&SUPERS, Self::Super),
            (&LIST_USES, Self::ListUse),
            (&LIST_HEADS, Self::ListHead),
            (&LISTS, Self::List),
            (&LIST_ARRAYS, Self::ListArray),
            (&LIST_GROWTH, Self::ListGrowth),
            (&NEW_SHRINKERS, Self::NewShrinker),
            (&SHRINKERS, Self::Shrinker),
        ];
        table.into_iter().find(|(symbols, _)| symbols.contains(&symbol)).map_or(Self::Other, |(_, role)| role)
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
    fn the_kernels_own_state_is_known_by_its_functions() {
        let of = |symbol| Role::of(symbol);
        assert_eq!((of("alloc_super"), of("memcg_list_lru_alloc")), (Role::Super, Role::ListUse));
        assert_eq!((of("__list_lru_init+0x3e"), of("shrinker_alloc")), (Role::List, Role::NewShrinker));
        assert_eq!(
            (of("__memcg_init_list_lru_node"), of("memcg_init_list_lru_node")),
            (Role::ListHead, Role::ListArray)
        );
        assert_eq!(of("memcg_update_all_list_lrus"), Role::ListGrowth);
        assert_eq!((of("alloc_shrinker_info"), of("prealloc_shrinker")), (Role::Shrinker, Role::Other));
    }

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
