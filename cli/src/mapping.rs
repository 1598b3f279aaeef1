// SPDX-License-Identifier: GPL-2.0-only
//! Mapped I/O, which goes to the disk without the image's file system: whether
//! it is in use, and why not.
//!
//! Nothing here opens the image: another opener ends the mapping.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::device::{Attachment, Device, Driver};
use crate::error::{Error, Exit, Result};
use crate::output::warn;
use crate::target::{not_attached, write_setting};
use crate::text::{printable, shown, unescape};
use crate::{clock, dio, interrupt, wait};

/// How long to wait for the mapping to begin.
const PATIENCE: Duration = Duration::from_secs(2);

/// The module's reason for a mapped image.
const MAPPED: &str = "mapped";
/// The module's reason for a mapping that is turned off.
const OFF: &str = "turned off";
/// The module's reason for an image with buffered I/O.
pub const BUFFERED: &str = "I/O to the image is not direct";

/// The module's reasons that last, and what to do about each.
const NEVER: [(&str, &str); 4] = [
    (BUFFERED, "make it direct first"),
    ("the image is not on ext4 or xfs", "move it to one of them"),
    (
        "the file needs its file system for every I/O",
        "is it encrypted, under fs-verity, a swap file, immutable, \
         append-only, on DAX, or does ext4 journal its data? make a copy that \
         is not",
    ),
    (
        "the disk can't be mapped to",
        "move it to a disk that is not zoned, on a 64-bit machine",
    ),
];

/// The module's causes for I/O through the file system, in words.
const CAUSES: [(&str, &str); 13] = [
    ("discard", "discards or zeroes"),
    ("epoch", "while not mapped"),
    ("cache", "for pages in the page cache"),
    ("flush", "flushes of such writes"),
    ("hole", "to holes"),
    ("unwritten", "to blocks that were never written"),
    ("empty", "to holes or blocks that were never written"),
    ("shared", "to an image that shares blocks"),
    ("blocks", "to other blocks that aren't mapped"),
    ("alignment", "with memory that the disk can't take"),
    ("disk", "that the disk can't take"),
    ("frozen", "while the file system was frozen or read-only"),
    ("memory", "without memory"),
];

/// A cause of I/O through the file system, in words. A newer module may have
/// further ones.
pub fn cause(name: &str) -> &str {
    let known = CAUSES.iter().find(|(cause, _)| *cause == name);
    known.map_or(name, |(_, words)| words)
}

/// Who ended an epoch, as far as the module knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Break {
    /// When, in seconds since 1970.
    pub time: u64,
    /// The process.
    pub pid: Option<u64>,
    /// The name of its thread, safe to print.
    pub command: Option<String>,
}

impl Break {
    /// From the lines of `loop/stat`.
    fn parse(line: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name| line(name)?.parse::<u64>().ok();
        let time = number("broken_at").filter(|time| *time != 0)?;
        let pid = number("broken_pid").filter(|pid| *pid != 0);
        let command = pid.and_then(|_| line("broken_by")).map(|name| {
            printable(&OsString::from_vec(unescape(name.as_bytes())))
        });
        Some(Self { time, pid, command })
    }

    /// The process: "cp (1234)".
    pub fn by(&self) -> Option<String> {
        Some(format!("{} ({})", self.command.as_ref()?, self.pid?))
    }

    /// When, and who, if the caller may know it: "2026-11-25T02:40:00Z by cp
    /// (1234)".
    pub fn describe(&self) -> String {
        let by = self.by().map(|by| format!(" by {by}")).unwrap_or_default();
        format!("{}{by}", clock::utc(self.time))
    }
}

/// The state of the mapping of one of floop's devices.
#[derive(Clone, Debug, Default)]
pub struct Mapping {
    /// Whether mapping is turned on.
    pub wanted: bool,
    /// Why it is not mapped, in the module's words; `None` if it is.
    pub reason: Option<String>,
    /// How much of the image is mapped, in bytes.
    pub bytes: u64,
    /// How much of that for reads only, because other files share it.
    pub shared: u64,
    /// In how many extents.
    pub extents: u64,
    /// The memory of the map, in bytes.
    pub memory: u64,
    /// Bytes of zeroes that were written to allocate ahead.
    pub zeroed: u64,
    /// How much of the image was allocated ahead and isn't written yet, in
    /// bytes; `None` if the module doesn't tell.
    pub spare: Option<u64>,
    /// How many epochs began.
    pub epochs_begun: u64,
    /// How many epochs another opener ended.
    pub epochs_broken: u64,
    /// How often others have the image open to read; `None` if the module
    /// doesn't tell.
    pub readers: Option<u64>,
    /// I/Os that were mapped.
    pub ios_mapped: u64,
    /// Reads of holes that were answered at once.
    pub ios_holes: u64,
    /// I/Os that went through the file system.
    pub ios_file: u64,
    /// I/Os that failed; `None` if the module doesn't tell.
    pub ios_failed: Option<u64>,
    /// `ios_file` by cause; empty if the module doesn't tell.
    pub causes: BTreeMap<String, u64>,
    /// How the last epoch that was broken ended.
    pub last_break: Option<Break>,
}

impl Mapping {
    /// From a device; `None` if the driver doesn't map or nothing is attached.
    pub fn of(device: Device) -> Option<Self> {
        let stat = device.attribute("loop/stat")?;
        // Whatever a name in it is made of, the rest is known.
        let stat = stat.to_string_lossy();
        let lines = || stat.lines().filter_map(|line| line.split_once(' '));
        let line = |name: &str| {
            let found = lines().find(|(word, _)| *word == name);
            found.map(|(_, value)| value.to_owned())
        };
        let number = |name: &str| -> Option<u64> { line(name)?.parse().ok() };
        let causes = lines().filter_map(|(word, value)| {
            let cause = word.strip_prefix("ios_file_")?.to_owned();
            Some((cause, value.parse().ok()?))
        });
        let said = device
            .attribute("loop/mapped_reason")?
            .to_string_lossy()
            .into_owned();
        Some(Self {
            wanted: device.number_attribute("loop/mapping")? != 0,
            reason: (said != MAPPED).then_some(said),
            bytes: number("mapped_bytes")?,
            // A module of before has none.
            shared: number("mapped_shared_bytes").unwrap_or_default(),
            extents: number("mapped_extents")?,
            memory: number("mapped_memory")?,
            // A module of before has none.
            zeroed: number("zeroed_bytes").unwrap_or_default(),
            spare: number("spare_bytes"),
            epochs_begun: number("epochs_begun")?,
            epochs_broken: number("epochs_broken")?,
            readers: number("readers"),
            ios_mapped: number("ios_mapped")?,
            // A module of before has none.
            ios_holes: number("ios_holes").unwrap_or_default(),
            ios_file: number("ios_file")?,
            ios_failed: number("ios_failed"),
            causes: causes.collect(),
            last_break: Break::parse(line),
        })
    }

    /// Whether it is mapped now.
    pub fn is_on(&self) -> bool {
        self.reason.is_none()
    }

    /// The reason and what to do about it, if the reason is one that lasts.
    pub fn obstacle(&self) -> Option<(&'static str, &'static str)> {
        let reason = self.reason.as_deref()?;
        NEVER.into_iter().find(|(words, _)| *words == reason)
    }
}

/// The mapped share of a device in percent. `None` if the device shows a part
/// of its image: the module counts what is mapped of the whole image.
pub fn percent(attachment: &Attachment) -> Option<u64> {
    let mapping = attachment.mapping.as_ref()?;
    if attachment.offset != 0 || attachment.size_limit != 0 {
        return None;
    }
    Some(share(mapping.bytes, attachment.size))
}

/// A share in percent, rounded down: only all of it is 100.
fn share(part: u64, all: u64) -> u64 {
    let percent = u128::from(part) * 100 / u128::from(all.max(1));
    u64::try_from(percent).unwrap_or(100).min(100)
}

/// Turns mapping on or off. Turning it off waits for mapped I/O in flight.
pub fn switch(device: Device, on: bool) -> Result<()> {
    let (value, doing) = if on {
        ("1", "cannot turn mapping on")
    } else {
        ("0", "cannot turn mapping off")
    };
    write_setting(device, "loop/mapping", value, doing, || {
        too_old(&device.node())
    })
}

/// The error for a driver that doesn't map.
pub fn no_driver(name: &Path) -> Error {
    Error::new(
        Exit::NoDriver,
        name,
        "can't be mapped: the in-tree loop driver would serve it, and only \
         floop maps",
    )
}

fn too_old(name: &Path) -> Error {
    Error::new(
        Exit::NoDriver,
        name,
        "can't be mapped: the loaded version of the floop module doesn't map",
    )
    .hint("load a newer one")
}

/// Waits for the mapping to begin. Fails for a reason that lasts, and warns for
/// one that may pass.
///
/// `name` is the name that the user gave. `otherwise` is a hint how to do
/// without mapping.
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
    interrupt::check(name)?;
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
        let way_out = "someone else turned it off: try again";
        return Err(refuse(Exit::Failed, reason, way_out));
    }
    warn(&format!(
        "{}: is not mapped yet: {reason}; it will be when that has changed",
        shown(name.as_os_str())
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
    fn the_causes_are_the_modules() {
        let module = include_str!("../../kernel/sysfs.c");
        let count = module.matches("= \"ios_file_").count();
        assert_eq!(count, CAUSES.len());
        for (name, words) in CAUSES {
            assert!(module.contains(&format!("= \"ios_file_{name}\",")));
            assert_eq!(cause(name), words);
        }
        assert_eq!(cause("moon"), "moon");
    }

    #[test]
    fn who_ended_an_epoch() {
        let of = |at: &str, pid: &str| {
            let (at, pid) = (at.to_owned(), pid.to_owned());
            Break::parse(move |name| match name {
                "broken_at" => Some(at.clone()),
                "broken_pid" => Some(pid.clone()),
                "broken_by" => Some("\\303\\251\\134 \\012".to_owned()),
                _ => None,
            })
        };
        assert_eq!(of("0", "0"), None);
        let unknown = of("7", "0").map(|known| (known.time, known.by()));
        assert_eq!(unknown, Some((7, None)));
        let by = of("7", "12").and_then(|known| known.by());
        assert_eq!(by.as_deref(), Some("é\\ \\x0a (12)"));
        let said = |pid| of("7", pid).map(|known| known.describe());
        assert_eq!(said("0").as_deref(), Some("1970-01-01T00:00:07Z"));
        let at = "1970-01-01T00:00:07Z by é\\ \\x0a (12)";
        assert_eq!(said("12").as_deref(), Some(at));
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
            ..Mapping::default()
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
