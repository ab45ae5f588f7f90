//! Rows and bars of an outcome: values with their unit and where they come from, so that a reader of the terminal and a
//! program see the same.

use serde::Serialize;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Of what was built here.
    Measured,
    /// By a formula.
    Computed,
    /// By others.
    Published,
}

/// One column.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// `B`, `MiB`, `GiB`, `s`, `%`, or empty for a count.
    pub unit: &'static str,
    /// Of all its values.
    pub origin: Origin,
}

impl Column {
    pub(crate) fn new(name: impl Into<String>, unit: &'static str, origin: Origin) -> Self {
        Self { name: name.into(), unit, origin }
    }
}

/// One row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What it is about.
    pub name: String,
    /// A value for each column; `None`: there is none.
    pub values: Vec<Option<f64>>,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// All but the first, which has the rows' names.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Row>,
}

impl Table {
    pub(crate) fn new(title: impl Into<String>, columns: Vec<Column>) -> Self {
        Self { title: title.into(), columns, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, name: impl Into<String>, values: Vec<Option<f64>>) {
        debug_assert_eq!(values.len(), self.columns.len());
        self.rows.push(Row { name: name.into(), values });
    }
}

/// One bar.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bar {
    /// What it is.
    pub name: String,
    /// Its length.
    pub value: f64,
    /// Where that comes from.
    pub origin: Origin,
}

/// Bars of one unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// As in [`Column::unit`].
    pub unit: &'static str,
    /// From top to bottom.
    pub bars: Vec<Bar>,
}

impl Chart {
    pub(crate) fn new(title: impl Into<String>, unit: &'static str) -> Self {
        Self { title: title.into(), unit, bars: Vec::new() }
    }

    pub(crate) fn bar(&mut self, name: impl Into<String>, value: f64, origin: Origin) {
        self.bars.push(Bar { name: name.into(), value, origin });
    }
}

/// Digits in threes: `3,440,080,000`.
pub(crate) fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn digits_in_threes() {
        let shown = [0, 999, 1000, 65_534, 3_440_080_000].map(super::thousands);
        assert_eq!(shown, ["0", "999", "1,000", "65,534", "3,440,080,000"]);
    }
}
