// SPDX-License-Identifier: GPL-2.0-only
//! The room that an image takes in its file system, and what of it other files
//! have, too.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use fiemap::{Fiemap, FiemapExtentFlags};
use rustix::fs::{OFlags, fstatfs};

use crate::device::Attachment;
use crate::image::{self, Identity};
use crate::mapping::Mapping;

/// The magic number of ext2 to ext4, whose files share nothing. Until 6.16 its
/// fiemap is not safe while the file changes (`floop_fiemap_is_safe()`).
const EXT4: u32 = 0xef53;
/// Those of file systems whose files share blocks, and whose fiemap says which:
/// xfs, btrfs, bcachefs, ocfs2. Others are not asked: an open may have effects
/// (FUSE), and their fiemap may be ext4's (overlayfs).
const SHARES: [u32; 4] = [0x5846_5342, 0x9123_683e, 0xca45_1a4e, 0x7461_636f];
/// How long it may take to look at all extents, which are many in btrfs.
const PATIENCE: Duration = Duration::from_secs(2);

/// The bytes of an image's blocks. `None` if its name leads elsewhere.
pub fn allocated(
    attachment: &Attachment,
    identity: Option<Identity>,
) -> Option<u64> {
    let identity = identity?;
    let (path, deleted) = attachment.image();
    let found = fs::metadata(path).ok()?;
    let is_it = !deleted && identity == Identity::of(&found);
    (is_it && found.is_file()).then(|| found.blocks().saturating_mul(512))
}

/// The bytes of those that it shares. Opens the image, unless that would keep
/// it from being mapped: then those that are mapped.
pub fn shared(
    attachment: &Attachment,
    identity: Option<Identity>,
    allocated: u64,
) -> Option<u64> {
    if allocated == 0 {
        Some(0)
    } else if let Some(mapping) = mapped(attachment) {
        Some(mapping.shared)
    } else if is_about_to_be_mapped(attachment) {
        None
    } else {
        count(attachment.image().0, identity).ok().flatten()
    }
}

/// Of a file that shares blocks, those of its blocks are mapped, too.
fn mapped(attachment: &Attachment) -> Option<&Mapping> {
    attachment.mapping.as_ref().filter(|mapping| mapping.bytes > 0)
}

fn is_about_to_be_mapped(attachment: &Attachment) -> bool {
    attachment.mapping.as_ref().is_some_and(|mapping| {
        mapping.wanted && !mapping.is_on() && mapping.obstacle().is_none()
    })
}

/// Counts them; `None` if the name leads elsewhere by now, or that isn't known.
fn count(path: &Path, identity: Option<Identity>) -> io::Result<Option<u64>> {
    let (found, metadata) = image::find(path)?;
    if identity != Some(Identity::of(&metadata)) {
        return Ok(None);
    }
    // All that there are have 32 bits.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let kind = fstatfs(&found)?.f_type as u32;
    if kind == EXT4 {
        return Ok(Some(0));
    }
    if !SHARES.contains(&kind) {
        return Ok(None);
    }
    sum(&image::reopen(&found, OFlags::NONBLOCK)?)
}

/// Adds them up; `None` if there are too many extents to look at.
fn sum(file: &File) -> io::Result<Option<u64>> {
    let end = Instant::now() + PATIENCE;
    let mut sum: u64 = 0;
    for extent in Fiemap::new(file) {
        let extent = extent?;
        if extent.fe_flags.contains(FiemapExtentFlags::SHARED) {
            sum = sum.saturating_add(extent.fe_length);
        }
        if Instant::now() > end {
            return Ok(None);
        }
    }
    Ok(Some(sum))
}
