// SPDX-License-Identifier: GPL-2.0-only
//! The report of a device, as text and as JSON. `docs/command.md` has the
//! schema.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;

use serde::Serialize;

use crate::allocate::Allocate;
use crate::cli::Discard;
use crate::device::{self, Attachment, DevId, Driver};
use crate::image::Identity;
use crate::ioctl::Info;
use crate::mapping::{Break, Mapping};
use crate::text::{bytes, count, shown, yes_no};
use crate::users::Users;
use crate::{allocate, dio, discard, ioctl, mapping, space, users};

/// What `list` shows about a device.
#[derive(Debug, Serialize)]
pub struct Summary {
    pub device: String,
    pub driver: &'static str,
    pub driver_version: Option<String>,
    pub backing_file: String,
    pub deleted: bool,
    pub size: u64,
    pub offset: u64,
    pub size_limit: u64,
    pub sector_size: u64,
    pub read_only: bool,
    pub autoclear: bool,
    pub partscan: bool,
    pub direct: bool,
    pub mapped: Option<bool>,
    pub mapped_bytes: Option<u64>,
    pub maj_min: Option<String>,
    pub back_ino: Option<u64>,
    pub back_maj_min: Option<String>,
    #[serde(rename = "ref")]
    pub reference: Option<String>,
}

/// What `status`, `attach` and `set` show about a device.
#[derive(Debug, Serialize)]
pub struct Details {
    #[serde(flatten)]
    pub summary: Summary,
    pub direct_reason: Option<String>,
    pub discard: &'static str,
    pub allocate: String,
    pub zeroed: Option<u64>,
    pub spare: Option<u64>,
    pub allocated: Option<u64>,
    pub shared: Option<u64>,
    pub mapping: Option<bool>,
    pub mapped_reason: Option<String>,
    pub mapped_shared_bytes: Option<u64>,
    pub mapped_extents: Option<u64>,
    pub mapped_memory: Option<u64>,
    pub epochs_begun: Option<u64>,
    pub epochs_broken: Option<u64>,
    pub readers: Option<u64>,
    pub ios_mapped: Option<u64>,
    pub ios_holes: Option<u64>,
    pub ios_file: Option<u64>,
    pub ios_file_causes: Option<BTreeMap<String, u64>>,
    pub ios_failed: Option<u64>,
    pub last_break: Option<Break>,
    pub partitions: Vec<PartitionSummary>,
    pub users: Users,
    /// The name that was given at the attach.
    #[serde(skip)]
    given: Option<OsString>,
    #[serde(skip)]
    attachment: Attachment,
    #[serde(skip)]
    identity: Option<Identity>,
}

/// A partition in `Details`.
#[derive(Debug, Serialize)]
pub struct PartitionSummary {
    pub device: String,
    pub number: u64,
    pub start: u64,
    pub size: u64,
}

impl Summary {
    /// The summary of an attachment, with its status from the driver, if the
    /// caller may get it.
    pub fn of(attachment: &Attachment, status: Option<&Info>) -> Self {
        let (image, deleted) = attachment.image();
        let mapping = attachment.mapping.as_ref();
        Self {
            device: attachment.device.node().display().to_string(),
            driver: attachment.driver.id(),
            driver_version: device::floop_version(attachment.device.family),
            backing_file: image.to_string_lossy().into_owned(),
            deleted,
            size: attachment.size,
            offset: attachment.offset,
            size_limit: attachment.size_limit,
            sector_size: attachment.sector_size,
            read_only: attachment.read_only,
            autoclear: attachment.autoclear,
            partscan: attachment.partscan,
            direct: attachment.direct,
            mapped: mapping.map(Mapping::is_on),
            mapped_bytes: mapping.map(|mapping| mapping.bytes),
            maj_min: attachment.device.id().map(|id| id.to_string()),
            back_ino: status.map(|info| info.lo_inode),
            back_maj_min: status.map(|info| backing_number(info).to_string()),
            reference: status
                .map(|info| reference(info).to_string_lossy().into_owned()),
        }
    }
}

/// The driver's status of an attachment, if the caller may open the device.
pub fn status(attachment: &Attachment) -> Option<Info> {
    let file = File::open(attachment.device.node()).ok()?;
    let info = ioctl::status(&file).ok()?;
    // Another process may have attached another image meanwhile.
    attachment.is_current().then_some(info)
}

/// The device number of the file system that the image is on.
pub fn backing_number(info: &Info) -> DevId {
    DevId::from_kernel(info.lo_device)
}

/// The name that was given to the driver at the attach.
pub fn reference(info: &Info) -> OsString {
    OsStr::from_bytes(ioctl::file_name(info)).to_owned()
}

impl Details {
    /// What a write to a hole allocates, if that isn't just its own blocks.
    fn allocated_ahead(&self) -> Option<String> {
        let zeroed = self.zeroed.unwrap_or_default();
        let unit = match allocate::of(self.attachment.device) {
            Allocate::Off if zeroed == 0 => return None,
            Allocate::Off => "nothing ahead".to_owned(),
            Allocate::Auto => "ahead".to_owned(),
            Allocate::Unit(unit) => format!("{} at a time", bytes(unit)),
        };
        let spare = self
            .spare
            .map(|size| format!(", {} of them not written since", bytes(size)))
            .unwrap_or_default();
        Some(format!("{unit}; {} of zeroes so far{spare}", bytes(zeroed)))
    }

    /// The details of an attachment. `open` is the device, if it is open
    /// already.
    pub fn of(attachment: &Attachment, open: Option<&File>) -> Self {
        // Without permission to open the device, the image's identity is
        // unknown.
        let status = match open {
            Some(file) => ioctl::status(file).ok(),
            None => File::open(attachment.device.node())
                .ok()
                .and_then(|file| ioctl::status(file).ok()),
        };
        let identity = status.as_ref().map(Identity::of_attached);
        let mapping = attachment.mapping.as_ref();
        Self {
            summary: Summary::of(attachment, status.as_ref()),
            direct_reason: dio::reason(attachment, identity),
            discard: discard::word(discard::of(attachment.device)),
            allocate: allocate::of(attachment.device).to_string(),
            zeroed: mapping.map(|mapping| mapping.zeroed),
            spare: mapping.and_then(|mapping| mapping.spare),
            allocated: space::allocated(attachment, identity),
            shared: None,
            mapping: mapping.map(|mapping| mapping.wanted),
            mapped_reason: mapping.and_then(|mapping| mapping.reason.clone()),
            mapped_shared_bytes: mapping.map(|mapping| mapping.shared),
            mapped_extents: mapping.map(|mapping| mapping.extents),
            mapped_memory: mapping.map(|mapping| mapping.memory),
            epochs_begun: mapping.map(|mapping| mapping.epochs_begun),
            epochs_broken: mapping.map(|mapping| mapping.epochs_broken),
            readers: mapping.and_then(|mapping| mapping.readers),
            ios_mapped: mapping.map(|mapping| mapping.ios_mapped),
            ios_holes: mapping.map(|mapping| mapping.ios_holes),
            ios_file: mapping.map(|mapping| mapping.ios_file),
            ios_file_causes: mapping.map(|mapping| mapping.causes.clone()),
            ios_failed: mapping.and_then(|mapping| mapping.ios_failed),
            last_break: mapping.and_then(|mapping| mapping.last_break.clone()),
            partitions: attachment
                .device
                .partitions()
                .into_iter()
                .map(|partition| PartitionSummary {
                    device: partition.node.display().to_string(),
                    number: partition.number,
                    start: partition.start,
                    size: partition.size,
                })
                .collect(),
            users: users::of(attachment.device),
            given: status.as_ref().map(reference),
            attachment: attachment.clone(),
            identity,
        }
    }

    /// Also looks for blocks that the image shares, for which it may open it.
    pub fn with_shared(mut self) -> Self {
        self.shared = self.allocated.and_then(|allocated| {
            space::shared(&self.attachment, self.identity, allocated)
        });
        self
    }

    /// As text, one line per fact.
    pub fn lines(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            let _ = writeln!(text, "{:<16}{value}", format!("{name}:"));
        };
        let summary = &self.summary;
        line("device", &summary.device);
        if let Some(number) = &summary.maj_min {
            line("number", number);
        }
        let version = summary
            .driver_version
            .as_ref()
            .map(|version| format!(", {version}"));
        line(
            "driver",
            &format!(
                "{}{}",
                self.attachment.driver,
                version.unwrap_or_default()
            ),
        );
        let deleted = if summary.deleted { " (deleted)" } else { "" };
        line(
            "image",
            &format!(
                "{}{deleted}",
                shown(self.attachment.image().0.as_os_str())
            ),
        );
        if let (Some(inode), Some(disk)) =
            (summary.back_ino, &summary.back_maj_min)
        {
            line("inode", &format!("{inode} on {disk}"));
        }
        if let Some(name) = self.given.as_ref().filter(|n| !n.is_empty()) {
            line("loop ref", &shown(name));
        }
        line("size", &bytes(summary.size));
        if let Some(size) = self.allocated {
            line("allocated", &format!("{} of the image", bytes(size)));
        }
        if let Some(size) = self.shared.filter(|size| *size > 0) {
            line("shared", &format!("{} with other files", bytes(size)));
        }
        line("offset", &bytes(summary.offset));
        let limit = summary.size_limit;
        line(
            "size limit",
            &if limit == 0 { "none".to_owned() } else { bytes(limit) },
        );
        line("sector size", &summary.sector_size.to_string());
        line("read-only", yes_no(summary.read_only));
        line("autoclear", yes_no(summary.autoclear));
        line("partition scan", yes_no(summary.partscan));
        if self.discard == discard::word(Discard::Keep) {
            line("discards", "kept: they free nothing");
        }
        if let Some(text) = self.allocated_ahead() {
            line("allocates", &text);
        }
        match &self.direct_reason {
            Some(why) => line("direct I/O", &format!("no: {why}")),
            None => line("direct I/O", "yes"),
        }
        for (name, value) in mapping_lines(&self.attachment) {
            line(name, &value);
        }
        for partition in &self.partitions {
            let place = format!(
                "{} at {}",
                bytes(partition.size),
                bytes(partition.start)
            );
            line("partition", &format!("{}, {place}", partition.device));
        }
        for user in self.users.list() {
            line("used", &user);
        }
        if let Some(what) = self.users.not_seen() {
            line("not seen", &what);
        }
        text
    }
}

/// The lines about the mapping.
fn mapping_lines(attachment: &Attachment) -> Vec<(&'static str, String)> {
    let Some(mapping) = &attachment.mapping else {
        let why = match attachment.driver {
            Driver::InTree => "not with the in-tree driver",
            Driver::Floop | Driver::DropIn => "not with this version of floop",
        };
        return vec![("mapping", why.to_owned())];
    };
    let now = match &mapping.reason {
        Some(why) => format!("no: {why}"),
        None => "yes".to_owned(),
    };
    let share = match mapping::percent(attachment) {
        Some(percent) => format!("{percent}% of the device"),
        None => "of the whole image".to_owned(),
    };
    let extents = count(mapping.extents, "extent");
    let reads = match mapping.shared {
        0 => String::new(),
        shared => format!("; {} of it for reads only", bytes(shared)),
    };
    let mut lines = vec![
        ("mapping", now),
        (
            "mapped",
            format!("{}, {share}, in {extents}{reads}", bytes(mapping.bytes)),
        ),
        ("map's memory", bytes(mapping.memory)),
        (
            "epochs",
            format!(
                "{} begun, {} broken",
                mapping.epochs_begun, mapping.epochs_broken
            ),
        ),
    ];
    if let Some(last) = &mapping.last_break {
        lines.push(("last broken", last.describe()));
    }
    if let Some(readers @ 1..) = mapping.readers {
        let often = count(readers, "time");
        lines.push(("readers", format!("open {often} by others to read")));
    }
    lines.push((
        "I/Os",
        format!(
            "{} mapped, {} of holes, {} through the file",
            mapping.ios_mapped, mapping.ios_holes, mapping.ios_file
        ),
    ));
    let causes: Vec<String> = mapping
        .causes
        .iter()
        .filter(|(_, number)| **number > 0)
        .map(|(name, number)| format!("{number} {}", mapping::cause(name)))
        .collect();
    if !causes.is_empty() {
        lines.push(("by the file", causes.join(", ")));
    }
    if let Some(failed @ 1..) = mapping.ios_failed {
        lines.push(("failed", count(failed, "I/O")));
    }
    lines
}
