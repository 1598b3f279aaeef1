// SPDX-License-Identifier: GPL-2.0-only
//! Direct I/O: whether an image supports it, and why not.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, OFlags, StatxFlags, statx};
use rustix::io::Errno;

use crate::cli::Direct;
use crate::content::{Finding, smallest};
use crate::device::{Attachment, DevId, Driver};
use crate::image::{self, Identity, content_of, size_of, visible};

/// The smallest sector size.
const SECTOR: u32 = 512;
/// The largest sector size that every kernel supports.
const LARGEST: u32 = 4096;

/// The alignment of offsets and lengths for direct I/O to a file; `None` if
/// there is no direct I/O to it.
pub fn alignment(file: &File) -> Option<u32> {
    let direct = open_direct(file)?;
    let alignment = stated_alignment(file)?;
    reads(&direct, alignment).then_some(alignment)
}

/// The same, as the file system reports it.
fn stated_alignment(file: &File) -> Option<u32> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::DIOALIGN;
    let stat = statx(file, c"", AtFlags::EMPTY_PATH, wanted).ok()?;
    if stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0 {
        // Zero means no direct I/O to this file, because it is encrypted for
        // example.
        return (stat.stx_dio_mem_align != 0)
            .then(|| stat.stx_dio_offset_align.max(SECTOR));
    }
    // Many file systems don't report it. Take the sector size of their disk.
    let mode = FileType::from_raw_mode(stat.stx_mode.into());
    let disk = if mode == FileType::BlockDevice {
        DevId { major: stat.stx_rdev_major, minor: stat.stx_rdev_minor }
    } else {
        DevId { major: stat.stx_dev_major, minor: stat.stx_dev_minor }
    };
    Some(sector_size_of(disk).unwrap_or(SECTOR))
}

/// Opens the file for direct I/O, if that is possible.
fn open_direct(file: &File) -> Option<File> {
    image::reopen(file, OFlags::DIRECT).ok()
}

/// Whether a direct read works. overlayfs accepts `O_DIRECT` even if the file
/// system below has no direct I/O.
fn reads(direct: &File, alignment: u32) -> bool {
    let len = usize::try_from(alignment.next_power_of_two())
        .unwrap_or(4096)
        .max(4096);
    let mut memory = vec![0; 2 * len];
    let skip = memory.as_ptr().align_offset(len);
    let refused = [Some(Errno::INVAL), Some(Errno::OPNOTSUPP)];
    match direct.read_at(&mut memory[skip..skip + len], 0) {
        Ok(_) => true,
        Err(error) => !refused.contains(&Errno::from_io_error(&error)),
    }
}

/// The logical block size of a disk, or of a partition's disk.
fn sector_size_of(disk: DevId) -> Option<u32> {
    let folder = disk.sysfs()?;
    let read = |folder: &Path| -> Option<u32> {
        let text =
            fs::read_to_string(folder.join("queue/logical_block_size")).ok()?;
        text.trim().parse().ok()
    };
    read(&folder).or_else(|| read(folder.parent()?))
}

/// What the plan depends on.
#[derive(Debug)]
pub struct Facts {
    /// The image's direct I/O alignment, if it has direct I/O.
    pub alignment: Option<u32>,
    /// The device's offset into the image.
    pub offset: u64,
    /// The device's size.
    pub visible: u64,
    /// The content with the smallest sectors.
    pub made_for: Option<Finding>,
    /// Whether the user asked for direct I/O explicitly.
    pub asked: bool,
}

/// How to attach an image, where the module doesn't choose by itself.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// The sector size to ask for.
    pub sector_size: u32,
    /// Why I/O can't be direct.
    pub obstacle: Option<String>,
}

/// The reason for an image that could have direct I/O.
pub const NOT_ASKED: &str = "it was not asked for";
const NO_DIRECT_IO: &str = "the image's file system has no direct I/O for it";

fn offset_obstacle(offset: u64, alignment: u32) -> String {
    format!(
        "the offset {offset} is not a multiple of {alignment}, the direct I/O \
         alignment of the image"
    )
}

fn sector_obstacle(sector: u64, alignment: u32) -> String {
    format!(
        "the sector size {sector} is smaller than {alignment}, the direct I/O \
         alignment of the image"
    )
}

/// Chooses a sector size with which I/O can be direct, unless the content would
/// not be readable with it.
pub fn plan(facts: &Facts, sector_size: Option<u32>) -> Plan {
    let buffered = |why: String| Plan {
        sector_size: sector_size.unwrap_or(SECTOR),
        obstacle: Some(why),
    };
    let Some(alignment) = facts.alignment else {
        return buffered(NO_DIRECT_IO.to_owned());
    };
    if facts.offset % u64::from(alignment) != 0 {
        return buffered(offset_obstacle(facts.offset, alignment));
    }
    let wanted = match sector_size {
        Some(size) if size < alignment => {
            return buffered(sector_obstacle(size.into(), alignment));
        }
        Some(size) => size,
        None => {
            if let Some(why) = keeps_small_sectors(facts, alignment) {
                return buffered(why);
            }
            alignment
        }
    };
    Plan { sector_size: wanted, obstacle: None }
}

/// Why the sector size can't be raised to the alignment.
fn keeps_small_sectors(facts: &Facts, alignment: u32) -> Option<String> {
    if !alignment.is_power_of_two() || alignment > LARGEST {
        return Some(format!(
            "direct I/O on this image needs {alignment}-byte sectors, which \
             not every kernel has"
        ));
    }
    match facts.made_for {
        Some(finding) if finding.sector_size < alignment => {
            return Some(format!(
                "direct I/O on this image needs {alignment}-byte sectors, but \
                 it holds {}",
                finding.describe()
            ));
        }
        // A blank image keeps 512-byte sectors: a partition table that is made
        // in larger ones can't be read in sectors of 512 bytes.
        None if alignment > SECTOR && !facts.asked => {
            return Some(format!(
                "direct I/O on this image needs {alignment}-byte sectors, and \
                 it holds nothing known to be made for them"
            ));
        }
        _ => {}
    }
    // A tail smaller than the smallest sector is lost either way.
    let sectors = facts.visible - facts.visible % u64::from(SECTOR);
    let tail = sectors % u64::from(alignment);
    (alignment > SECTOR && tail != 0).then(|| {
        format!(
            "direct I/O on this image needs {alignment}-byte sectors, and its \
             last {tail} bytes would be lost"
        )
    })
}

/// Why I/O to an attached image is not direct; `None` if it is direct.
pub fn reason(
    attachment: &Attachment,
    identity: Option<Identity>,
) -> Option<String> {
    if attachment.direct {
        return None;
    }
    if attachment.driver != Driver::InTree {
        // The module reports its own reason.
        let said = attachment.device.attribute("loop/dio_reason");
        let mut why = said.map_or_else(
            || "the module does not say".to_owned(),
            |text| text.to_string_lossy().into_owned(),
        );
        if let Some(kept) =
            reopen(attachment, identity).ok().and_then(|f| kept(&f, attachment))
        {
            why = format!("{why} ({kept})");
        }
        return Some(why);
    }
    Some(match reopen(attachment, identity) {
        Ok(file) => in_tree_reason(&file, attachment),
        Err(why) => format!("not known: {why}"),
    })
}

/// Why the in-tree driver's I/O to an attached image can't be direct; `None` if
/// it can, or if the image can't be asked. The driver doesn't see each reason.
pub fn obstacle(attachment: &Attachment, identity: Identity) -> Option<String> {
    let file = reopen(attachment, Some(identity)).ok()?;
    Some(in_tree_reason(&file, attachment)).filter(|why| why != NOT_ASKED)
}

/// Opens the image of a device by its name, if that still names the image.
fn reopen(
    attachment: &Attachment,
    identity: Option<Identity>,
) -> Result<File, String> {
    let (path, deleted) = attachment.image();
    if deleted {
        return Err("the image was deleted".to_owned());
    }
    let failed = |error: io::Error| {
        format!("the image: {}", crate::error::reason(&error))
    };
    let (found, metadata) = image::find(path).map_err(failed)?;
    if identity.is_some_and(|identity| identity != Identity::of(&metadata)) {
        return Err("the image's name now belongs to another file".to_owned());
    }
    image::reopen(&found, OFlags::empty()).map_err(failed)
}

/// Why an attached image has smaller sectors than direct I/O needs.
fn kept(file: &File, attachment: &Attachment) -> Option<String> {
    let alignment = alignment(file)?;
    if attachment.offset % u64::from(alignment) != 0
        || attachment.sector_size >= u64::from(alignment)
    {
        return None;
    }
    let size = size_of(file)?;
    let facts = Facts {
        alignment: Some(alignment),
        offset: attachment.offset,
        visible: visible(size, attachment.offset, Some(attachment.size_limit)),
        made_for: smallest(&content_of(file, attachment.offset)),
        asked: false,
    };
    keeps_small_sectors(&facts, alignment)
}

/// Finds the reason again, because the in-tree driver doesn't report it.
fn in_tree_reason(file: &File, attachment: &Attachment) -> String {
    let Some(alignment) = alignment(file) else {
        return NO_DIRECT_IO.to_owned();
    };
    if attachment.offset % u64::from(alignment) != 0 {
        return offset_obstacle(attachment.offset, alignment);
    }
    if attachment.sector_size < u64::from(alignment) {
        return kept(file, attachment).unwrap_or_else(|| {
            sector_obstacle(attachment.sector_size, alignment)
        });
    }
    NOT_ASKED.to_owned()
}

/// Whether to ask the driver for direct I/O.
pub fn asks(direct: Direct, plan: &Plan) -> bool {
    direct != Direct::Off && plan.obstacle.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPT: Finding =
        Finding { what: "a GPT", sector_size: 512, table: true };

    fn facts(alignment: Option<u32>) -> Facts {
        Facts {
            alignment,
            offset: 0,
            visible: 1 << 20,
            made_for: None,
            asked: false,
        }
    }

    fn why(plan: &Plan) -> &str {
        plan.obstacle.as_deref().unwrap_or("direct")
    }

    #[test]
    fn a_512_byte_alignment_suits_every_image() {
        let mut facts = facts(Some(512));
        facts.made_for = Some(GPT);
        facts.visible = 1000;
        let plan = plan(&facts, None);
        assert_eq!((plan.sector_size, why(&plan)), (512, "direct"));
    }

    #[test]
    fn sectors_grow_to_the_alignment() {
        let asked = |alignment| Facts { asked: true, ..facts(Some(alignment)) };
        let p = plan(&asked(4096), None);
        assert_eq!((p.sector_size, why(&p)), (4096, "direct"));
        let p = plan(&facts(Some(512)), Some(4096));
        assert_eq!((p.sector_size, why(&p)), (4096, "direct"));
    }

    #[test]
    fn a_blank_image_stays_in_small_sectors() {
        let p = plan(&facts(Some(4096)), None);
        assert_eq!(p.sector_size, 512);
        assert!(
            why(&p).contains("holds nothing known to be made for them"),
            "{}",
            why(&p)
        );
    }

    #[test]
    fn sectors_do_not_grow_over_the_content() {
        let mut facts = facts(Some(4096));
        facts.made_for = Some(GPT);
        let p = plan(&facts, None);
        assert_eq!(p.sector_size, 512);
        assert!(
            why(&p).contains("holds a GPT made for 512-byte sectors"),
            "{}",
            why(&p)
        );
        // An explicit sector size wins.
        assert_eq!(why(&plan(&facts, Some(4096))), "direct");
        facts.made_for = Some(Finding { sector_size: 4096, ..GPT });
        assert_eq!(why(&plan(&facts, None)), "direct");
    }

    #[test]
    fn sectors_do_not_grow_over_what_kernels_can() {
        for alignment in [8192, 65536, 12288] {
            let p = plan(&facts(Some(alignment)), None);
            assert_eq!(p.sector_size, 512);
            assert!(
                why(&p).contains("which not every kernel has"),
                "{}",
                why(&p)
            );
        }
        assert_eq!(why(&plan(&facts(Some(8192)), Some(8192))), "direct");
    }

    #[test]
    fn no_byte_is_lost_for_direct_io() {
        let mut facts = Facts { asked: true, ..facts(Some(4096)) };
        facts.visible += 512;
        let p = plan(&facts, None);
        assert_eq!(p.sector_size, 512);
        assert!(why(&p).contains("last 512 bytes"), "{}", why(&p));
    }

    #[test]
    fn obstacles_are_named() {
        let p = plan(&facts(None), None);
        assert_eq!((p.sector_size, why(&p)), (512, NO_DIRECT_IO));
        let mut facts = facts(Some(4096));
        assert!(
            why(&plan(&facts, Some(512)))
                .contains("sector size 512 is smaller than 4096")
        );
        facts.offset = 512;
        assert!(
            why(&plan(&facts, None))
                .contains("offset 512 is not a multiple of 4096")
        );
        assert!(!asks(Direct::Auto, &plan(&facts, None)));
        facts.offset = 8192;
        facts.asked = true;
        assert!(asks(Direct::Auto, &plan(&facts, None)));
        assert!(!asks(Direct::Off, &plan(&facts, None)));
    }
}
