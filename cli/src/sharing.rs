// SPDX-License-Identifier: GPL-2.0-only
//! Images that are attached already.
//!
//! Two devices that write to the same part of an image destroy what is on it:
//! each has a page cache of its own.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::cli::{self, Direct, Discard, DriverChoice, Mapping};
use crate::device::{self, Attachment, Family};
use crate::error::{Error, Exit};
use crate::image::{Identity, Image};
use crate::ioctl::{self, Info};
use crate::text::shown;
use crate::{allocate, discard, wait};

/// How long another process may take to attach the same image.
const TURN: Duration = Duration::from_secs(5);

/// A device that has the image already.
#[derive(Debug)]
pub struct Other {
    /// What is attached to it.
    pub attachment: Attachment,
    /// The driver's status; `None` if the caller may not open the device.
    status: Option<Info>,
}

/// Waits until no other process attaches the same image. The lock ends with
/// `unlock()`, or when the image is closed.
pub fn lock(image: &Image) {
    // A lock that somebody else keeps, or a file system without locks, prevents
    // nothing.
    let _ = wait::until(TURN, || {
        flock(&image.file, FlockOperation::NonBlockingLockExclusive)
            != Err(Errno::WOULDBLOCK)
    });
}

/// Ends the lock: the driver may keep the open file.
pub fn unlock(image: &Image) {
    let _ = flock(&image.file, FlockOperation::Unlock);
}

/// The devices that have the image, under any name.
pub fn others(image: &Image) -> Vec<Other> {
    device::attached()
        .into_iter()
        .filter_map(|attachment| {
            let (identity, status) = match status(&attachment) {
                Ok(status) => (Identity::of_attached(&status), Some(status)),
                Err(Errno::ACCESS | Errno::PERM) => {
                    let metadata = fs::metadata(attachment.image().0).ok()?;
                    (Identity::of(&metadata), None)
                }
                // It was detached meanwhile.
                Err(_) => return None,
            };
            (identity == image.identity).then_some(Other { attachment, status })
        })
        .collect()
}

fn status(attachment: &Attachment) -> rustix::io::Result<Info> {
    let file = File::open(attachment.device.node())
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NXIO))?;
    if attachment.is_current() {
        ioctl::status(&file)
    } else {
        Err(Errno::NXIO)
    }
}

impl Other {
    /// Whether both would write to the same bytes.
    pub fn collides(&self, image: &Image, offset: u64, visible: u64) -> bool {
        let other = &self.attachment;
        let begin = other.offset;
        let end = begin.saturating_add(other.size);
        !image.read_only
            && !other.read_only
            && offset < end
            && begin < offset.saturating_add(visible)
    }

    /// What is different from a device that these arguments would make; `None`
    /// if it fits.
    fn difference(&self, args: &cli::Attach, image: &Image) -> Option<String> {
        let other = &self.attachment;
        let limit = args.size_limit.unwrap_or_default();
        if other.offset != args.offset {
            return Some(format!("its offset is {}", other.offset));
        }
        if other.size_limit != limit {
            return Some(match other.size_limit {
                0 => "it has no size limit".to_owned(),
                limit => format!("its size limit is {limit}"),
            });
        }
        if other.read_only != image.read_only {
            let what = if other.read_only { "read-only" } else { "writable" };
            return Some(format!("it is {what}"));
        }
        if other.autoclear != args.autoclear {
            return Some(
                if other.autoclear {
                    "it is detached when its last user closes it"
                } else {
                    "it stays when its last user closes it"
                }
                .to_owned(),
            );
        }
        self.other_settings(args)
    }

    /// What is different of the settings that count only if they were given.
    fn other_settings(&self, args: &cli::Attach) -> Option<String> {
        let other = &self.attachment;
        let family = match args.driver {
            DriverChoice::Auto => other.device.family,
            DriverChoice::Floop => Family::Floop,
            DriverChoice::Loop => Family::Loop,
        };
        let number = args.number.unwrap_or(other.device.number);
        if (family, number) != (other.device.family, other.device.number) {
            return Some("it is another device than the wanted one".to_owned());
        }
        if args
            .sector_size
            .is_some_and(|size| u64::from(size) != other.sector_size)
        {
            return Some(format!("its sector size is {}", other.sector_size));
        }
        if args.partscan && !other.partscan {
            return Some("it has no partition scan".to_owned());
        }
        match args.direct {
            Direct::On if !other.direct => {
                return Some("its I/O is buffered".to_owned());
            }
            Direct::Off if other.direct => {
                return Some("its I/O is direct".to_owned());
            }
            _ => {}
        }
        let mapping = other.mapping.as_ref().is_some_and(|m| m.wanted);
        match args.mapping {
            Mapping::On if !mapping => {
                return Some("its mapping is off".to_owned());
            }
            Mapping::Off if mapping => {
                return Some("its mapping is on".to_owned());
            }
            _ => {}
        }
        match (args.discard, discard::of(other.device)) {
            (Some(Discard::Pass), Discard::Keep) => {
                return Some("its discards are kept".to_owned());
            }
            (Some(Discard::Keep), Discard::Pass) => {
                return Some("its discards free blocks".to_owned());
            }
            _ => {}
        }
        let ahead = allocate::of(other.device);
        if args.allocate.is_some_and(|wanted| wanted != ahead) {
            return Some(format!("it allocates ahead otherwise ({ahead})"));
        }
        let name = self.status.as_ref().map(ioctl::file_name);
        match (&args.loop_ref, name) {
            (Some(wanted), Some(name)) if *wanted.as_bytes() != *name => {
                Some("its name (--loop-ref) is another".to_owned())
            }
            _ => None,
        }
    }
}

/// A device that these arguments would make just so.
pub fn fitting<'a>(
    others: &'a [Other],
    args: &cli::Attach,
    image: &Image,
) -> Option<&'a Attachment> {
    let fits = |other: &&Other| other.difference(args, image).is_none();
    others.iter().find(fits).map(|other| &other.attachment)
}

/// The error for an image that is attached for writing already.
pub fn refusal(other: &Other, args: &cli::Attach, image: &Image) -> Error {
    let node = other.attachment.device.node();
    let node = node.display();
    let error = |cause: String| Error::new(Exit::Busy, &args.file, cause);
    match other.difference(args, image) {
        Some(difference) if args.if_attached == cli::IfAttached::Reuse => {
            error(format!(
                "is attached to {node} already, which can't be reused: \
                 {difference}"
            ))
            .hint(format_args!(
                "detach it first (floop detach {node}), or ask for the same"
            ))
        }
        difference => {
            let reuse = if difference.is_none() {
                format!(", or use {node} (--if-attached reuse)")
            } else {
                String::new()
            };
            error(format!(
                "is attached to {node} for writing already, and writing \
                 through both destroys it"
            ))
            .hint(format_args!(
                "attach it --read-only{reuse}, or take the risk (--if-attached \
                 allow)"
            ))
        }
    }
}

/// The warning in place of that error.
pub fn warning(other: &Other, name: &Path) -> String {
    format!(
        "{}: is attached to {} for writing already; writing through both \
         destroys it (--read-only is safe)",
        shown(name.as_os_str()),
        other.attachment.device.node().display()
    )
}
