// SPDX-License-Identifier: GPL-2.0-only
//! The columns of `list`, and tables of columns.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;

use clap::ValueEnum;

use crate::text::printable;

/// A column. losetup's names are aliases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Column {
    /// The device
    #[value(name = "NAME")]
    Name,
    /// Its size
    #[value(name = "SIZE")]
    Size,
    /// Its offset in the image
    #[value(name = "OFFSET")]
    Offset,
    /// Its largest size; 0: no limit
    #[value(name = "LIMIT", alias = "SIZELIMIT")]
    Limit,
    /// Its logical block size
    #[value(name = "SECTOR", alias = "LOG-SEC")]
    Sector,
    /// Read-only
    #[value(name = "RO")]
    ReadOnly,
    /// Detached by its last user
    #[value(name = "AUTOCLEAR")]
    Autoclear,
    /// Scanned for partitions
    #[value(name = "PARTSCAN")]
    Partscan,
    /// Direct I/O
    #[value(name = "DIRECT", alias = "DIO")]
    Direct,
    /// Mapped, or the share that is
    #[value(name = "MAPPED")]
    Mapped,
    /// floop, floop-drop-in or loop
    #[value(name = "DRIVER")]
    Driver,
    /// The image
    #[value(name = "BACK-FILE")]
    BackFile,
    /// The image's inode number
    #[value(name = "BACK-INO")]
    BackIno,
    /// The device number of the image's file system
    #[value(name = "BACK-MAJ:MIN")]
    BackMajMin,
    /// The device's number
    #[value(name = "MAJ:MIN")]
    MajMin,
    /// The name that was given at the attach
    #[value(name = "REF")]
    Ref,
}

/// What `list` shows by default.
pub const DEFAULT: [Column; 12] = [
    Column::Name,
    Column::Size,
    Column::Offset,
    Column::Limit,
    Column::Sector,
    Column::ReadOnly,
    Column::Autoclear,
    Column::Partscan,
    Column::Direct,
    Column::Mapped,
    Column::Driver,
    Column::BackFile,
];

impl Column {
    /// Its heading.
    pub fn heading(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }

    /// Whether it is aligned to the right.
    pub fn is_number(self) -> bool {
        matches!(
            self,
            Self::Size
                | Self::Offset
                | Self::Limit
                | Self::Sector
                | Self::BackIno
        )
    }

    /// Whether only the open device tells it.
    pub fn needs_device(self) -> bool {
        matches!(self, Self::BackIno | Self::BackMajMin | Self::Ref)
    }
}

/// Aligns the columns, those of numbers to the right. The last one is not
/// padded, if it is not of numbers.
pub fn table(numbers: &[bool], rows: &[Vec<String>]) -> String {
    let width = |at: usize| {
        rows.iter()
            .filter_map(|row| Some(row.get(at)?.chars().count()))
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..numbers.len()).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(numbers).zip(&widths).enumerate();
        for (at, ((cell, is_number), width)) in cells {
            if at > 0 {
                text.push(' ');
            }
            let _ = if *is_number {
                write!(text, "{cell:>width$}")
            } else if at + 1 == numbers.len() {
                write!(text, "{cell}")
            } else {
                write!(text, "{cell:<width$}")
            };
        }
        text.push('\n');
    }
    text
}

/// Cells with one blank between them. A byte of a cell that is a blank, a
/// backslash, a control character or not UTF-8 is `\xNN`, so that each line has
/// as many words as columns.
pub fn raw(rows: &[Vec<OsString>]) -> String {
    let mut text = String::new();
    for row in rows {
        for (at, cell) in row.iter().enumerate() {
            if at > 0 {
                text.push(' ');
            }
            let mut word = Vec::with_capacity(cell.len());
            for byte in cell.as_bytes() {
                match byte {
                    b' ' | b'\\' => {
                        word.extend(format!("\\x{byte:02x}").bytes());
                    }
                    byte => word.push(*byte),
                }
            }
            text.push_str(&printable(OsStr::from_bytes(&word)));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(cells: &[&[&str]]) -> Vec<Vec<String>> {
        let owned = |row: &&[&str]| row.iter().map(|&c| c.to_owned()).collect();
        cells.iter().map(owned).collect()
    }

    #[test]
    fn columns_line_up() {
        let columns = [false, true, false];
        let text = table(
            &columns,
            &rows(&[&["NAME", "SIZE", "FILE"], &["é", "16777216", "/x"]]),
        );
        assert_eq!(text, "NAME     SIZE FILE\né    16777216 /x\n");
        let columns = [false, true];
        let text = table(&columns, &rows(&[&["NAME", "SIZE"], &["a", "1"]]));
        assert_eq!(text, "NAME SIZE\na       1\n");
    }

    #[test]
    fn raw_cells_have_no_blanks() {
        let file = OsStr::from_bytes(b"/x y\\z\xff").to_owned();
        let text =
            raw(&[vec!["NAME".into(), "FILE".into()], vec!["a".into(), file]]);
        assert_eq!(text, "NAME FILE\na /x\\x20y\\x5cz\\xff\n");
    }

    #[test]
    fn names_of_columns() {
        assert_eq!(Column::BackMajMin.heading(), "BACK-MAJ:MIN");
        assert_eq!(
            Column::from_str("log-sec", true),
            Ok(Column::Sector),
            "losetup's names"
        );
    }
}
