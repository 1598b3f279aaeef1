// SPDX-License-Identifier: GPL-2.0-only
//! `floop list`.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use serde::Serialize;

use crate::cli;
use crate::column::{self, Column};
use crate::device::{self, Attachment};
use crate::error::{Error, Result};
use crate::ioctl::Info;
use crate::output::{self, complain};
use crate::report::{Summary, backing_number, reference, status};
use crate::text::{shown, yes_no};
use crate::{mapping, size, target};

/// `list --json`.
#[derive(Serialize)]
struct Listing {
    devices: Vec<Summary>,
}

/// Lists what is attached. An empty list has no header, as in losetup.
pub fn run(args: &cli::List) -> Result<()> {
    let (attached, error) = selected(&args.targets);
    print(args, &attached)?;
    error.map_or(Ok(()), Err)
}

/// The attachments that the targets name, or all of them; and the first error.
/// Further errors are printed.
fn selected(targets: &[PathBuf]) -> (Vec<Attachment>, Option<Error>) {
    if targets.is_empty() {
        return (device::attached(), None);
    }
    let mut found = Vec::new();
    let mut first_error = None;
    for target in targets {
        match target::attachments(target) {
            Ok(attachments) => found.extend(attachments),
            Err(error) if first_error.is_none() => first_error = Some(error),
            Err(error) => complain(&error.to_string()),
        }
    }
    found.sort_by_key(|attachment| attachment.device);
    found.dedup_by_key(|attachment| attachment.device);
    (found, first_error)
}

fn print(args: &cli::List, attached: &[Attachment]) -> Result<()> {
    if args.json {
        let devices = attached
            .iter()
            .map(|attachment| {
                Summary::of(attachment, status(attachment).as_ref())
            })
            .collect();
        return output::print_json(&Listing { devices });
    }
    if attached.is_empty() {
        return Ok(());
    }
    let columns = if args.columns.is_empty() {
        &column::DEFAULT[..]
    } else {
        &args.columns
    };
    let mut rows: Vec<Vec<OsString>> = Vec::new();
    if !args.no_headings {
        rows.push(columns.iter().map(|c| c.heading().into()).collect());
    }
    rows.extend(attached.iter().map(|a| row(a, columns, args)));
    output::print(&if args.raw {
        column::raw(&rows)
    } else {
        let numbers: Vec<bool> =
            columns.iter().map(|column| column.is_number()).collect();
        let rows: Vec<Vec<String>> = rows
            .iter()
            .map(|row| {
                let text =
                    |cell: &OsString| cell.to_string_lossy().into_owned();
                row.iter().map(text).collect()
            })
            .collect();
        column::table(&numbers, &rows)
    })
}

fn row(
    attachment: &Attachment,
    columns: &[Column],
    args: &cli::List,
) -> Vec<OsString> {
    let info = columns
        .iter()
        .any(|column| column.needs_device())
        .then(|| status(attachment))
        .flatten();
    columns
        .iter()
        .map(|column| cell(*column, attachment, info.as_ref(), args))
        .collect()
}

/// A cell; "-" if the value is not known.
fn cell(
    column: Column,
    attachment: &Attachment,
    info: Option<&Info>,
    args: &cli::List,
) -> OsString {
    let name = |name: &OsStr| -> OsString {
        if args.raw { name.to_owned() } else { shown(name).into() }
    };
    let bytes = |number: u64| {
        if args.bytes { number.to_string() } else { size::short(number) }
    };
    let unless = |value: Option<String>| value.unwrap_or("-".to_owned());
    match column {
        Column::Name => attachment.device.node().into(),
        Column::Size => bytes(attachment.size).into(),
        Column::Offset => bytes(attachment.offset).into(),
        Column::Limit => bytes(attachment.size_limit).into(),
        Column::Sector => attachment.sector_size.to_string().into(),
        Column::ReadOnly => yes_no(attachment.read_only).into(),
        Column::Autoclear => yes_no(attachment.autoclear).into(),
        Column::Partscan => yes_no(attachment.partscan).into(),
        Column::Direct => yes_no(attachment.direct).into(),
        Column::Mapped => mapped(attachment).into(),
        Column::Driver => attachment.driver.id().into(),
        Column::BackFile => {
            let (image, deleted) = attachment.image();
            let mut cell = name(image.as_os_str());
            cell.push(if deleted { " (deleted)" } else { "" });
            cell
        }
        Column::BackIno => {
            unless(info.map(|info| info.lo_inode.to_string())).into()
        }
        Column::BackMajMin => {
            unless(info.map(|info| backing_number(info).to_string())).into()
        }
        Column::MajMin => {
            unless(attachment.device.id().map(|id| id.to_string())).into()
        }
        Column::Ref => {
            let given = info.map(reference).filter(|name| !name.is_empty());
            given.map_or_else(|| "-".into(), |given| name(&given))
        }
    }
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
