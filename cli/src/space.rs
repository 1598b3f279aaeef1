// SPDX-License-Identifier: GPL-2.0-only
//! The room that an image takes in its file system, and what of it other files
//! have, too.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use fiemap::{Fiemap, FiemapExtentFlags};
use rustix::fs::OFlags;

use crate::device::Attachment;
use crate::image::Identity;

/// The bytes of an image's blocks. `None` if its name leads elsewhere.
pub fn allocated(
    attachment: &Attachment,
    identity: Option<Identity>,
) -> Option<u64> {
    let (path, deleted) = attachment.image();
    let found = fs::metadata(path).ok()?;
    let is_it = !deleted && identity == Some(Identity::of(&found));
    (is_it && found.is_file()).then(|| found.blocks().saturating_mul(512))
}

/// The bytes of those that it shares. Opens the image, unless that would keep
/// it from being mapped.
pub fn shared(
    attachment: &Attachment,
    identity: Option<Identity>,
) -> Option<u64> {
    let allocated = allocated(attachment, identity)?;
    if allocated == 0 || has_mapped_blocks(attachment) {
        Some(0)
    } else if is_about_to_be_mapped(attachment) {
        None
    } else {
        count(attachment.image().0, identity).ok().flatten()
    }
}

/// Nothing of a file is mapped that has ever shared a block.
fn has_mapped_blocks(attachment: &Attachment) -> bool {
    attachment.mapping.as_ref().is_some_and(|mapping| mapping.bytes > 0)
}

fn is_about_to_be_mapped(attachment: &Attachment) -> bool {
    attachment.mapping.as_ref().is_some_and(|mapping| {
        mapping.wanted && !mapping.is_on() && mapping.obstacle().is_none()
    })
}

/// Counts them; `None` if the name leads elsewhere by now.
fn count(path: &Path, identity: Option<Identity>) -> io::Result<Option<u64>> {
    // The kernel's flags fit; one that didn't would open it as usual.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if identity != Some(Identity::of(&file.metadata()?)) {
        return Ok(None);
    }
    sum(&file).map(Some)
}

fn sum(file: &File) -> io::Result<u64> {
    Fiemap::new(file).try_fold(0, |sum: u64, extent| {
        let extent = extent?;
        let shared = extent.fe_flags.contains(FiemapExtentFlags::SHARED);
        Ok(sum.saturating_add(if shared { extent.fe_length } else { 0 }))
    })
}
