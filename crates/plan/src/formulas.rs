//! The formulas in words, as the report prints them.

use serde::Serialize;

/// How one column is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Formula {
    /// Which column.
    pub column: &'static str,
    /// For which designs.
    pub designs: &'static str,
    /// How.
    pub formula: &'static str,
}

/// What the letters mean.
pub const SYMBOLS: &str = "N nodes, P CPUs, M groups, C length of arrays (4, 10, 22, … 12,286, 24,574, … 65,535), \
    L list_lrus = mounts × lists a mount, S shrinkers = mounts + others, U = S/64 rounded up, u groups that use a list, X nodes of its index, \
    K(x) what kmalloc takes for x bytes";

/// All formulas, in the order of the columns.
pub const ALL: [Formula; 15] = [
    Formula { column: "root lists", designs: "Linux", formula: "L · K(64·N)" },
    Formula { column: "list heads", designs: "linux-5.8 to linux-5.13", formula: "L · N · C · K(24)" },
    Formula { column: "list heads", designs: "+transposed", formula: "L · C · K(24·N)" },
    Formula { column: "list heads", designs: "+lazy", formula: "L · u · K(24·N)" },
    Formula { column: "list heads", designs: "linux-5.18, linux-6.7", formula: "L · u · K(16 + 24·N)" },
    Formula { column: "list heads", designs: "linux-6.13 and later", formula: "L · u · K(16 + 32·N)" },
    Formula { column: "list arrays", designs: "linux-5.8 to linux-5.13", formula: "L · N · K(16 + 8·C)" },
    Formula { column: "list arrays", designs: "+transposed, +lazy", formula: "L · K(16 + 8·C)" },
    Formula {
        column: "list index",
        designs: "linux-5.18 and later",
        formula: "L · X · 576, the users' ids far apart",
    },
    Formula {
        column: "shrinker state",
        designs: "linux-5.8, linux-5.9",
        formula: "(M + 1) · N · K(16 + 8·U)",
    },
    Formula {
        column: "shrinker state",
        designs: "linux-5.13 to linux-5.18",
        formula: "(M + 1) · N · K(32 + 520·U)",
    },
    Formula {
        column: "shrinker state",
        designs: "linux-6.7 and later",
        formula: "(M + 1) · N · (K(24 + 8·U) + U · K(520))",
    },
    Formula {
        column: "handles",
        designs: "linux-5.9 and later",
        formula: "M · (K(56) + K(56) + 8·P), from linux-7.1 on times N",
    },
    Formula {
        column: "owner vectors",
        designs: "linux-5.9 and later",
        formula: "slabs of accounted caches · K(8 · objects); from 7.0 on none where they fit into slack",
    },
    Formula {
        column: "all",
        designs: "tenalloc",
        formula: "L · (96 + K₁₆(32 + 40·N) · (1 + u) + hash(u)); of each list 8 B are shrinker state; handles 40 · M; \
                  owner vectors at most 4 B an object",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spend::CAUSES;

    #[test]
    fn every_column_has_its_formula() {
        for cause in CAUSES {
            assert!(ALL.iter().any(|f| f.column == cause), "{cause}");
        }
        assert!(ALL.iter().all(|f| f.column == "all" || CAUSES.contains(&f.column)));
    }
}
