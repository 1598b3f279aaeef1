// SPDX-License-Identifier: GPL-2.0-only
//! `floop list`.

use std::fmt::Write as _;

use serde::Serialize;

use crate::cli;
use crate::device::{self, Attachment};
use crate::error::Result;
use crate::mapping;
use crate::output;
use crate::report::Summary;
use crate::text::{printable, yes_no};

/// `list --json`.
#[derive(Serialize)]
struct Listing {
    devices: Vec<Summary>,
}

const HEADER: [&str; 12] = [
    "NAME",
    "SIZE",
    "OFFSET",
    "LIMIT",
    "SECTOR",
    "RO",
    "AUTOCLEAR",
    "PARTSCAN",
    "DIRECT",
    "MAPPED",
    "DRIVER",
    "BACK-FILE",
];

/// The columns with numbers.
const NUMBERS: std::ops::Range<usize> = 1..5;

/// Lists what is attached. An empty list has no header, as in losetup.
pub fn run(args: &cli::List) -> Result<()> {
    let attached = device::attached();
    if args.json {
        let devices = attached.iter().map(Summary::of).collect();
        return output::print_json(&Listing { devices });
    }
    if attached.is_empty() {
        return Ok(());
    }
    let mut rows = vec![HEADER.map(str::to_owned)];
    rows.extend(attached.iter().map(row));
    output::print(&table(&rows))
}

fn row(attachment: &Attachment) -> [String; HEADER.len()] {
    let (image, deleted) = attachment.image();
    let deleted = if deleted { " (deleted)" } else { "" };
    [
        attachment.device.node().display().to_string(),
        attachment.size.to_string(),
        attachment.offset.to_string(),
        attachment.size_limit.to_string(),
        attachment.sector_size.to_string(),
        yes_no(attachment.read_only).to_owned(),
        yes_no(attachment.autoclear).to_owned(),
        yes_no(attachment.partscan).to_owned(),
        yes_no(attachment.direct).to_owned(),
        mapped(attachment),
        attachment.driver.id().to_owned(),
        format!("{}{deleted}", printable(image.as_os_str())),
    ]
}

/// The MAPPED column: yes, no, a percentage, or "-" without mapping.
fn mapped(attachment: &Attachment) -> String {
    match (&attachment.mapping, mapping::percent(attachment)) {
        (None, _) => "-".to_owned(),
        (Some(mapping), Some(percent)) if mapping.is_on() && percent < 100 => {
            format!("{percent}%")
        }
        (Some(mapping), _) => yes_no(mapping.is_on()).to_owned(),
    }
}

/// Aligns the columns. The last column is not padded.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        rows.iter().map(|row| row[column].len()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = if column + 1 == N {
                writeln!(text, "{cell}")
            } else if NUMBERS.contains(&column) {
                write!(text, "{cell:>width$} ")
            } else {
                write!(text, "{cell:<width$} ")
            };
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned);
        let text = table(&[
            row(["NAME", "SIZE", "FILE"]),
            row(["a", "16777216", "/x"]),
        ]);
        assert_eq!(text, "NAME     SIZE FILE\na    16777216 /x\n");
    }
}
