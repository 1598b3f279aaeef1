// SPDX-License-Identifier: GPL-2.0-only
//! How much of an image its content needs: up to the end of the last partition
//! or of the file system.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::content::{self, Bytes};
use crate::image::content_of;

/// What is on a device, as far as shrinking and growing it go.
#[derive(Debug)]
pub struct Occupied {
    /// Its name, with an article.
    pub what: &'static str,
    /// Where it ends; `None` if that can't be told.
    pub end: Option<u64>,
}

/// The content from `offset` on; its ends count from there, too.
pub fn of(file: &File, offset: u64) -> Vec<Occupied> {
    let mut head = vec![0; content::SNIFF];
    // What can't be read is not recognized below.
    let read = file.read_at(&mut head, offset).unwrap_or_default();
    head.truncate(read);
    let bytes = Bytes(&head);
    content_of(file, offset)
        .into_iter()
        .map(|finding| Occupied {
            what: finding.what,
            end: end(file, offset, &bytes, finding.what),
        })
        .collect()
}

fn end(file: &File, offset: u64, head: &Bytes, what: &str) -> Option<u64> {
    let blocks = |count: u64, size: u64| count.checked_mul(size);
    match what {
        "a GPT" => gpt(file, offset, head),
        "a DOS partition table" => mbr(head),
        "an ext file system" => {
            let size = 1024_u64.checked_shl(head.le32(1024 + 24))?;
            let wide = head.le32(1024 + 96) & 0x80 != 0;
            let high = if wide { head.le32(1024 + 0x150) } else { 0 };
            let low = u64::from(head.le32(1024 + 4));
            blocks(u64::from(high) << 32 | low, size)
        }
        "an XFS file system" => blocks(
            u64::from_be_bytes(head.array(8)),
            u32::from_be_bytes(head.array(4)).into(),
        ),
        // The superblock's copy of the first device's item.
        "a Btrfs file system" => Some(head.le64(65536 + 0xc9 + 8)),
        "an ISO 9660 file system" => {
            blocks(head.le32(32768 + 80).into(), head.le16(32768 + 128).into())
        }
        "a squashfs" => Some(head.le64(40)),
        "swap space" => {
            blocks(u64::from(head.le32(1024 + 4)).checked_add(1)?, 4096)
        }
        "a FAT file system" => {
            let few = head.le16(19);
            let count = if few == 0 { head.le32(32) } else { few };
            blocks(count.into(), head.le16(11).into())
        }
        "an exFAT file system" => {
            blocks(head.le64(72), 1_u64.checked_shl(head.byte(108).into())?)
        }
        "an NTFS file system" => {
            blocks(head.le64(40).checked_add(1)?, head.le16(11).into())
        }
        _ => None,
    }
    // A superblock of zeroes tells nothing.
    .filter(|end| *end != 0)
}

/// The end of what the table calls usable, and the room for its copy behind
/// that: the kernel rejects a table whose disk ends before.
fn gpt(file: &File, offset: u64, head: &Bytes) -> Option<u64> {
    let sector = [512_u16, 1024, 2048, 4096]
        .into_iter()
        .find(|size| head.is((*size).into(), b"EFI PART"))?;
    let header = usize::from(sector);
    let sector = u64::from(sector);
    let table = head.le64(header + 72).checked_mul(sector)?;
    let count = usize::try_from(head.le32(header + 80)).ok()?;
    let size = usize::try_from(head.le32(header + 84)).ok()?;
    if !(128..=4096).contains(&size) || count > 16384 {
        return None;
    }
    let len = count * size;
    let mut entries = vec![0; len];
    file.read_exact_at(&mut entries, offset.checked_add(table)?).ok()?;
    let entries = Bytes(&entries);
    let mut last = head.le64(header + 48);
    for at in (0..len).step_by(size) {
        if entries.array::<16>(at) != [0; 16] {
            last = last.max(entries.le64(at + 40));
        }
    }
    let copy = (len as u64).div_ceil(sector).checked_add(1)?;
    last.checked_add(1)?.checked_add(copy)?.checked_mul(sector)
}

/// The end of the last primary or extended partition.
fn mbr(head: &Bytes) -> Option<u64> {
    let ends = (446..510)
        .step_by(16)
        .filter(|at| head.byte(at + 4) != 0)
        .map(|at| u64::from(head.le32(at + 8)) + u64::from(head.le32(at + 12)));
    ends.max().map(|sectors| sectors * 512)
}
