// SPDX-License-Identifier: GPL-2.0-only
//! The mapped path: whether I/O goes to the disk past the image's file system, and if not, why not.
//!
//! Nothing here opens the image: another opener is what ends the mapping.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;

use crate::device::{Attachment, Device, Driver};
use crate::error::{Error, Exit, Result};
use crate::output::warn;
use crate::target::not_attached;
use crate::text::printable;
use crate::{dio, wait};

/// How long an image that is to be mapped may take to be, before that is worth a word.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the module says of an image that is mapped.
const MAPPED: &str = "mapped";
/// And of one that is not to be.
const OFF: &str = "turned off";
const BUFFERED: &str = "I/O to the image is not direct";

/// What it says where that will stay so, and what to do about it.
const NEVER: [(&str, &str); 4] = [
    (BUFFERED, "see to that first"),
    ("the image is not on ext4 or xfs", "move it to one of them"),
    (
        "the file needs its file system for every I/O",
        "is it encrypted, under fs-verity, a swap file, on DAX, or does ext4 journal its data? \
         make a copy that is not",
    ),
    (
        "the disk can't be mapped to",
        "move it to a disk that is not zoned, on a 64-bit machine",
    ),
];

/// How things stand with a device of floop's.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// Whether it is to be mapped.
    pub wanted: bool,
    /// Why it is not, in the module's words; `None` if it is.
    pub reason: Option<String>,
    /// How much of the image is mapped, in bytes.
    pub bytes: u64,
    /// In how many pieces.
    pub extents: u64,
    /// What the map takes, in bytes.
    pub memory: u64,
    /// How often the mapping began.
    pub epochs_begun: u64,
    /// And how often another opener ended it.
    pub epochs_broken: u64,
    /// I/Os that went to the disk past the file system.
    pub ios_mapped: u64,
    /// And through it.
    pub ios_file: u64,
}

impl Mapping {
    /// Of a device; `None` if its driver has no such thing, or nothing is attached.
    pub fn of(device: Device) -> Option<Self> {
        let stat = device.attribute("loop/stat")?.into_string().ok()?;
        let number = |name: &str| -> Option<u64> {
            let mut lines =
                stat.lines().filter_map(|line| line.split_once(' '));
            lines.find(|(word, _)| *word == name)?.1.parse().ok()
        };
        let said = device
            .attribute("loop/mapped_reason")?
            .to_string_lossy()
            .into_owned();
        Some(Self {
            wanted: device.number_attribute("loop/mapping")? != 0,
            reason: (said != MAPPED).then_some(said),
            bytes: number("mapped_bytes")?,
            extents: number("mapped_extents")?,
            memory: number("mapped_memory")?,
            epochs_begun: number("epochs_begun")?,
            epochs_broken: number("epochs_broken")?,
            ios_mapped: number("ios_mapped")?,
            ios_file: number("ios_file")?,
        })
    }

    /// Whether it is mapped just now.
    pub fn is_on(&self) -> bool {
        self.reason.is_none()
    }

    /// Why that will not change by itself, and what to do about it.
    fn obstacle(&self) -> Option<(&'static str, &'static str)> {
        let reason = self.reason.as_deref()?;
        NEVER.into_iter().find(|(words, _)| *words == reason)
    }
}

/// How many percent of a device are mapped; `None` if it does not show all of its image: how much
/// of what it shows is mapped is not known then.
pub fn percent(attachment: &Attachment) -> Option<u64> {
    let mapping = attachment.mapping.as_ref()?;
    if attachment.offset != 0 || attachment.size_limit != 0 {
        return None;
    }
    Some(share(mapping.bytes, attachment.size))
}

/// In percent, rounded down: what is not all is not 100.
fn share(part: u64, all: u64) -> u64 {
    let percent = u128::from(part) * 100 / u128::from(all.max(1));
    u64::try_from(percent).unwrap_or(100).min(100)
}

/// Turns the mapping of a device on or off. Off, the last mapped I/O has ended.
pub fn switch(device: Device, on: bool) -> Result<()> {
    let node = device.node();
    let attribute = device.sysfs().join("loop/mapping");
    // The attribute goes with what is attached: it is that which is switched, or nothing.
    let done = OpenOptions::new()
        .write(true)
        .open(attribute)
        .and_then(|mut file| file.write_all(if on { b"1" } else { b"0" }));
    done.map_err(|error: io::Error| match Errno::from_io_error(&error) {
        Some(Errno::NOENT) if device.is_attached() => too_old(&node),
        Some(Errno::NOENT | Errno::NODEV) => not_attached(&node),
        _ => {
            let doing = if on {
                "cannot turn mapping on"
            } else {
                "cannot turn mapping off"
            };
            Error::os(&node, doing, error)
        }
    })
}

/// That mapping can't be had because of who serves the device.
pub fn no_driver(name: &Path) -> Error {
    Error::new(
        Exit::NoDriver,
        name,
        "can't be mapped: the in-tree loop driver would serve it, and only floop maps",
    )
}

fn too_old(name: &Path) -> Error {
    Error::new(
        Exit::NoDriver,
        name,
        "can't be mapped: the floop module that is loaded is of a version that does not map",
    )
    .hint("load a newer one")
}

/// Waits for a device to be mapped that is to be. An error if it can't be; a warning if it is not
/// yet. `name` is what the user called it, `otherwise` what to do to have it without.
pub fn wait_for(
    device: Device,
    name: &Path,
    otherwise: Option<&str>,
) -> Result<Attachment> {
    let mut found = None;
    wait::until(PATIENCE, || {
        found = device.attachment();
        found
            .as_ref()
            .and_then(|attachment| attachment.mapping.as_ref())
            .is_none_or(|mapping| {
                mapping.is_on()
                    || !mapping.wanted
                    || mapping.obstacle().is_some()
            })
    });
    let attachment = found.ok_or_else(|| not_attached(&device.node()))?;
    let Some(mapping) = &attachment.mapping else {
        return Err(match attachment.driver {
            Driver::InTree => no_driver(name),
            Driver::Floop | Driver::DropIn => too_old(name),
        });
    };
    let Some(reason) = &mapping.reason else { return Ok(attachment) };
    let refuse = |exit, cause: &dyn fmt::Display, way_out: &str| {
        let otherwise =
            otherwise.map(|text| format!("; {text}")).unwrap_or_default();
        Error::new(exit, name, format_args!("can't be mapped: {cause}"))
            .hint(format_args!("{way_out}{otherwise}"))
    };
    if let Some((words, way_out)) = mapping.obstacle() {
        let more = if words == BUFFERED {
            dio::reason(&attachment, None)
        } else {
            None
        };
        let more = more.map(|why| format!(" ({why})")).unwrap_or_default();
        return Err(refuse(
            Exit::Unsuitable,
            &format_args!("{words}{more}"),
            way_out,
        ));
    }
    if reason == OFF {
        let way_out = "someone else turned it off, or there is no memory for its map: try again";
        return Err(refuse(Exit::Failed, reason, way_out));
    }
    warn(&format!(
        "{}: is not mapped yet: {reason}; it will be when that has changed",
        printable(name.as_os_str())
    ));
    Ok(attachment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_the_modules() {
        let module = include_str!("../../kernel/sysfs.c");
        for words in
            NEVER.map(|(words, _)| words).into_iter().chain([MAPPED, OFF])
        {
            assert!(module.contains(&format!("= \"{words}\",")), "{words}");
        }
    }

    #[test]
    fn shares_are_rounded_down() {
        assert_eq!(share(0, 0), 0);
        assert_eq!(share(1, 1 << 40), 0);
        assert_eq!(share((1 << 40) - 1, 1 << 40), 99);
        assert_eq!(share(1 << 40, 1 << 40), 100);
        assert_eq!(share(u64::MAX, 512), 100);
    }

    #[test]
    fn obstacles_are_told_from_what_passes() {
        let mapping = |reason: &str| Mapping {
            wanted: true,
            reason: Some(reason.to_owned()),
            bytes: 0,
            extents: 0,
            memory: 0,
            epochs_begun: 0,
            epochs_broken: 0,
            ios_mapped: 0,
            ios_file: 0,
        };
        assert!(
            mapping("the image is not on ext4 or xfs").obstacle().is_some()
        );
        for passing in [
            "someone else has the image open",
            "not yet",
            "a word of a newer module",
        ] {
            assert!(mapping(passing).obstacle().is_none(), "{passing}");
        }
    }
}
