// SPDX-License-Identifier: GPL-2.0-only
//! Partition tables, as far as it takes to compare them with the kernel's
//! partitions: a GPT, and the primary partitions of a DOS table.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// A partition: its number, and its start and size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// From 1 on.
    pub number: u64,
    /// Where it starts.
    pub start: u64,
    /// Its size.
    pub size: u64,
}

/// The largest part of a GPT's entries that is read.
const MOST: usize = 1 << 20;

/// Reads the table of a device with sectors of this size. `None` if it has
/// none, or can't be read.
pub fn read(device: &File, sector: u64) -> Option<Vec<Entry>> {
    let bytes = |at: u64, len: usize| {
        let mut buffer = vec![0; len];
        device.read_exact_at(&mut buffer, at).ok()?;
        Some(buffer)
    };
    let first = bytes(0, 512)?;
    if first.get(510..512)? != b"\x55\xaa" {
        return None;
    }
    let header = bytes(sector, 92)?;
    if header.starts_with(b"EFI PART") {
        let at = le(&header, 72, 8)?.checked_mul(sector)?;
        let (count, size) = (le(&header, 80, 4)?, le(&header, 84, 4)?);
        let len = usize::try_from(count.checked_mul(size)?).ok()?;
        if size < 128 || len > MOST {
            return None;
        }
        return gpt(&bytes(at, len)?, usize::try_from(size).ok()?, sector);
    }
    dos(&first, sector)
}

/// A little-endian number.
fn le(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + len)?;
    Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

fn gpt(entries: &[u8], size: usize, sector: u64) -> Option<Vec<Entry>> {
    let mut found = Vec::new();
    for (number, entry) in (1..).zip(entries.chunks_exact(size)) {
        if entry.get(..16)?.iter().all(|byte| *byte == 0) {
            continue;
        }
        let (first, last) = (le(entry, 32, 8)?, le(entry, 40, 8)?);
        let sectors = last.checked_sub(first)?.checked_add(1)?;
        found.push(Entry {
            number,
            start: first.checked_mul(sector)?,
            size: sectors.checked_mul(sector)?,
        });
    }
    Some(found)
}

/// The kinds of an extended partition, which holds others.
const EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];

fn dos(first: &[u8], sector: u64) -> Option<Vec<Entry>> {
    let mut found = Vec::new();
    for number in 1..=4 {
        let at = 446 + 16 * (number - 1);
        let (status, kind) = (*first.get(at)?, *first.get(at + 4)?);
        // Something else than a table ends with 55 AA, too.
        if status & 0x7f != 0 {
            return None;
        }
        let sectors = le(first, at + 12, 4)?;
        if kind == 0 || sectors == 0 {
            continue;
        }
        // The kernel shows of it only its beginning.
        let shown = if EXTENDED.contains(&kind) {
            sectors.min(2.max(1024 / sector))
        } else {
            sectors
        };
        found.push(Entry {
            number: number as u64,
            start: le(first, at + 8, 4)? * sector,
            size: shown * sector,
        });
    }
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use std::{env, fs, io, process};

    use super::*;

    fn sector_with(entries: &[(u8, u32, u32)]) -> Vec<u8> {
        let mut sector = vec![0; 512];
        sector[510..].copy_from_slice(b"\x55\xaa");
        for (n, (kind, start, size)) in entries.iter().enumerate() {
            let at = 446 + 16 * n;
            sector[at + 4] = *kind;
            sector[at + 8..at + 12].copy_from_slice(&start.to_le_bytes());
            sector[at + 12..at + 16].copy_from_slice(&size.to_le_bytes());
        }
        sector
    }

    #[test]
    fn dos_tables() {
        let table = dos(&sector_with(&[(0x83, 8, 16), (5, 24, 99)]), 512);
        let entry = |number, start, size| Entry { number, start, size };
        assert_eq!(
            table,
            Some(vec![entry(1, 4096, 8192), entry(2, 12288, 1024)])
        );
        assert_eq!(dos(&sector_with(&[]), 512), None);
        let mut code = sector_with(&[(0x83, 8, 16)]);
        code[446] = 0x33;
        assert_eq!(dos(&code, 512), None);
    }

    #[test]
    fn gpt_where_the_sectors_are_large() -> io::Result<()> {
        let mut disk = vec![0; 3 * 4096];
        disk[510..512].copy_from_slice(b"\x55\xaa");
        let header = &mut disk[4096..4096 + 92];
        header[..8].copy_from_slice(b"EFI PART");
        (header[72], header[80], header[84]) = (2, 1, 128);
        let entry = &mut disk[2 * 4096..][..128];
        (entry[0], entry[32], entry[40]) = (1, 6, 7);
        let path = env::temp_dir().join(format!("floop-{}", process::id()));
        fs::write(&path, &disk)?;
        let file = File::open(&path);
        fs::remove_file(&path)?;
        let table = read(&file?, 4096);
        let start = 6 * 4096;
        assert_eq!(table, Some(vec![Entry { number: 1, start, size: 8192 }]));
        Ok(())
    }

    #[test]
    fn gpt_entries() {
        let mut entries = vec![0; 256];
        entries[128] = 1;
        entries[128 + 32] = 34;
        entries[128 + 40] = 35;
        assert_eq!(
            gpt(&entries, 128, 512),
            Some(vec![Entry { number: 2, start: 34 * 512, size: 1024 }])
        );
        // An end before the beginning
        entries[128 + 40] = 33;
        entries[128 + 32] = 35;
        assert_eq!(gpt(&entries, 128, 512), None);
    }
}
