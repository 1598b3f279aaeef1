// SPDX-License-Identifier: GPL-2.0-only
//! The image's content, as far as it determines the sector size.
//!
//! A partition table or file system that was made for 512-byte sectors can't be
//! read through a device with larger ones, or is found at the wrong place.

/// How many bytes from the start of the device to look at.
pub const SNIFF: usize = 68 * 1024;

/// A recognized piece of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its name, with an article.
    pub what: &'static str,
    /// The largest sector size that it works with.
    pub sector_size: u32,
    /// Whether it is a partition table.
    pub table: bool,
}

impl Finding {
    fn table(what: &'static str, sector_size: u32) -> Self {
        Self { what, sector_size, table: true }
    }

    fn other(what: &'static str, sector_size: u32) -> Self {
        Self { what, sector_size, table: false }
    }

    /// "a GPT made for 512-byte sectors".
    pub fn describe(&self) -> String {
        format!("{} made for {}-byte sectors", self.what, self.sector_size)
    }
}

/// The first bytes of an image. Reads beyond them find nothing.
pub struct Bytes<'a>(pub &'a [u8]);

impl Bytes<'_> {
    /// Whether these bytes are there.
    pub fn is(&self, at: usize, magic: &[u8]) -> bool {
        self.0.get(at..at + magic.len()).is_some_and(|bytes| bytes == magic)
    }

    /// A byte.
    pub fn byte(&self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or_default()
    }

    /// Some bytes.
    pub fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        self.0
            .get(at..at + N)
            .and_then(|bytes| bytes.try_into().ok())
            .unwrap_or([0; N])
    }

    /// A little-endian number of 16 bits.
    pub fn le16(&self, at: usize) -> u32 {
        u16::from_le_bytes(self.array(at)).into()
    }

    fn be16(&self, at: usize) -> u32 {
        u16::from_be_bytes(self.array(at)).into()
    }

    /// A little-endian number of 32 bits.
    pub fn le32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    /// A little-endian number of 64 bits.
    pub fn le64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }
}

/// The sector size in a superblock, if it is a valid one.
fn stated(size: u32) -> Option<u32> {
    (size.is_power_of_two() && (512..=65536).contains(&size)).then_some(size)
}

fn gpt(image: &Bytes) -> Option<Finding> {
    let sector_size = [512, 1024, 2048, 4096].into_iter().find(|size| {
        usize::try_from(*size).is_ok_and(|lba1| image.is(lba1, b"EFI PART"))
    })?;
    Some(Finding::table("a GPT", sector_size))
}

/// A boot sector: FAT, exFAT or NTFS.
fn fat(image: &Bytes) -> Option<Finding> {
    if !image.is(510, b"\x55\xaa") {
        return None;
    }
    if image.is(3, b"EXFAT   ") {
        let sector_size = stated(1_u32.checked_shl(image.byte(108).into())?)?;
        return Some(Finding::other("an exFAT file system", sector_size));
    }
    let sector_size = stated(image.le16(11))?;
    if image.is(3, b"NTFS    ") {
        return Some(Finding::other("an NTFS file system", sector_size));
    }
    let jump = matches!(image.byte(0), 0xeb | 0xe9);
    let cluster = image.byte(13);
    let reserved = image.le16(14);
    let tables = image.byte(16);
    let media = image.byte(21);
    let sound =
        cluster.is_power_of_two() && reserved != 0 && (1..=2).contains(&tables);
    (jump && sound && media >= 0xf0)
        .then_some(Finding::other("a FAT file system", sector_size))
}

/// A DOS partition table; the protective one of a GPT doesn't count.
fn mbr(image: &Bytes) -> Option<Finding> {
    if !image.is(510, b"\x55\xaa") || fat(image).is_some() {
        return None;
    }
    let mut used = false;
    for entry in (446..510).step_by(16) {
        if image.byte(entry) & 0x7f != 0 {
            return None;
        }
        let kind = image.byte(entry + 4);
        used |= kind != 0 && kind != 0xee && image.le32(entry + 12) != 0;
    }
    used.then_some(Finding::table("a DOS partition table", 512))
}

fn ext(image: &Bytes) -> Option<Finding> {
    if image.le16(1024 + 56) != 0xef53 {
        return None;
    }
    let sector_size = stated(1024_u32.checked_shl(image.le32(1024 + 24))?)?;
    Some(Finding::other("an ext file system", sector_size))
}

fn xfs(image: &Bytes) -> Option<Finding> {
    let sector_size =
        image.is(0, b"XFSB").then(|| stated(image.be16(102)))??;
    Some(Finding::other("an XFS file system", sector_size))
}

fn btrfs(image: &Bytes) -> Option<Finding> {
    let sector_size = image
        .is(65600, b"_BHRfS_M")
        .then(|| stated(image.le32(65536 + 144)))??;
    Some(Finding::other("a Btrfs file system", sector_size))
}

fn iso9660(image: &Bytes) -> Option<Finding> {
    let found = Finding::other("an ISO 9660 file system", 2048);
    image.is(32769, b"CD001").then_some(found)
}

fn erofs(image: &Bytes) -> Option<Finding> {
    let shift = image.byte(1024 + 12).into();
    let size = image
        .is(1024, b"\xe2\xe1\xf5\xe0")
        .then(|| 1_u32.checked_shl(shift))??;
    Some(Finding::other("an EROFS file system", stated(size)?))
}

/// squashfs works with any sector size.
fn squashfs(image: &Bytes) -> Option<Finding> {
    let found = Finding::other("a squashfs", 4096);
    image.is(0, b"hsqs").then_some(found)
}

/// Swap space, read and written in pages.
fn swap(image: &Bytes) -> Option<Finding> {
    let found = Finding::other("swap space", 4096);
    image.is(4086, b"SWAPSPACE2").then_some(found)
}

fn luks(image: &Bytes) -> Option<Finding> {
    let found = Finding::other("a LUKS header", 512);
    image.is(0, b"LUKS\xba\xbe").then_some(found)
}

fn lvm(image: &Bytes) -> Option<Finding> {
    let found = Finding::other("an LVM physical volume", 512);
    (0..4).any(|sector| image.is(sector * 512, b"LABELONE")).then_some(found)
}

/// A member of an md array: its superblock is at 0 or at 4096.
fn md(image: &Bytes) -> Option<Finding> {
    let found = Finding::other("a member of an md array", 512);
    [0, 4096]
        .into_iter()
        .any(|at| image.is(at, b"\xfc\x4e\x2b\xa9"))
        .then_some(found)
}

/// Recognizes the content by the first bytes of an image.
pub fn sniff(image: &[u8]) -> Vec<Finding> {
    let image = Bytes(image);
    [
        gpt, mbr, fat, ext, xfs, btrfs, iso9660, erofs, squashfs, swap, luks,
        lvm, md,
    ]
    .into_iter()
    .filter_map(|look| look(&image))
    .collect()
}

/// The finding with the smallest sectors.
pub fn smallest(found: &[Finding]) -> Option<Finding> {
    found.iter().copied().min_by_key(|finding| finding.sector_size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(pieces: &[(usize, &[u8])]) -> Vec<u8> {
        let mut image = vec![0; SNIFF];
        for (at, bytes) in pieces {
            image[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        image
    }

    fn one(pieces: &[(usize, &[u8])]) -> Option<(&'static str, u32)> {
        let found = sniff(&image(pieces));
        assert!(found.len() <= 1, "{found:?}");
        found.first().map(|f| (f.what, f.sector_size))
    }

    const SIGNATURE: (usize, &[u8]) = (510, b"\x55\xaa");

    #[test]
    fn nothing_is_found_in_nothing() {
        assert_eq!(sniff(&[]), []);
        assert_eq!(sniff(&[0; 512]), []);
        assert_eq!(sniff(&image(&[])), []);
        assert_eq!(sniff(&vec![0xff; SNIFF]), []);
        assert_eq!(sniff(&image(&[SIGNATURE])), []);
    }

    #[test]
    fn partition_tables() {
        let protective =
            (446, &b"\0\0\x02\0\xee\xff\xff\xff\x01\0\0\0\xff\xff\0\0"[..]);
        let gpt = |at| one(&[protective, SIGNATURE, (at, b"EFI PART")]);
        assert_eq!(gpt(512), Some(("a GPT", 512)));
        assert_eq!(gpt(4096), Some(("a GPT", 4096)));
        let linux =
            (446, &b"\x80\0\x02\0\x83\xff\xff\xff\0\x08\0\0\xff\xff\0\0"[..]);
        assert_eq!(
            one(&[linux, SIGNATURE]),
            Some(("a DOS partition table", 512))
        );
        let bad_flag =
            (446, &b"\x12\0\x02\0\x83\xff\xff\xff\0\x08\0\0\xff\xff\0\0"[..]);
        assert_eq!(one(&[bad_flag, SIGNATURE]), None);
    }

    #[test]
    fn boot_sectors_are_no_partition_tables() {
        let fat = |sector: &'static [u8]| {
            one(&[
                (0, b"\xeb\x3c\x90mkfs.fat"),
                (11, sector),
                (13, b"\x04\x01\0\x02"),
                (21, b"\xf8"),
                (446, b"\x80code that looks"),
                SIGNATURE,
            ])
        };
        assert_eq!(fat(b"\0\x02"), Some(("a FAT file system", 512)));
        assert_eq!(fat(b"\0\x10"), Some(("a FAT file system", 4096)));
        assert_eq!(
            one(&[(3, b"NTFS    "), (11, b"\0\x02"), SIGNATURE]),
            Some(("an NTFS file system", 512))
        );
        assert_eq!(
            one(&[(3, b"EXFAT   "), (108, b"\x0c"), SIGNATURE]),
            Some(("an exFAT file system", 4096))
        );
        assert_eq!(one(&[(3, b"EXFAT   "), (108, b"\xff"), SIGNATURE]), None);
    }

    #[test]
    fn file_systems() {
        let ext = |log: &'static [u8]| {
            one(&[(1024 + 24, log), (1024 + 56, b"\x53\xef")])
        };
        assert_eq!(ext(b"\0\0\0\0"), Some(("an ext file system", 1024)));
        assert_eq!(ext(b"\x02\0\0\0"), Some(("an ext file system", 4096)));
        assert_eq!(ext(b"\xff\0\0\0"), None);
        assert_eq!(
            one(&[(0, b"XFSB"), (102, b"\x02\0")]),
            Some(("an XFS file system", 512))
        );
        assert_eq!(
            one(&[(0, b"XFSB"), (102, b"\x10\0")]),
            Some(("an XFS file system", 4096))
        );
        assert_eq!(
            one(&[(65600, b"_BHRfS_M"), (65536 + 144, b"\0\x10\0\0")]),
            Some(("a Btrfs file system", 4096))
        );
        assert_eq!(
            one(&[(32769, b"CD001")]),
            Some(("an ISO 9660 file system", 2048))
        );
        assert_eq!(
            one(&[(1024, b"\xe2\xe1\xf5\xe0"), (1024 + 12, b"\x0c")]),
            Some(("an EROFS file system", 4096))
        );
        assert_eq!(one(&[(0, b"hsqs")]), Some(("a squashfs", 4096)));
        assert_eq!(one(&[(4086, b"SWAPSPACE2")]), Some(("swap space", 4096)));
        assert_eq!(one(&[(0, b"LUKS\xba\xbe")]), Some(("a LUKS header", 512)));
        for sector in 0..4 {
            let lvm = one(&[(sector * 512, b"LABELONE")]);
            assert_eq!(lvm, Some(("an LVM physical volume", 512)));
        }
        let md = Some(("a member of an md array", 512));
        assert_eq!(one(&[(0, b"\xfc\x4e\x2b\xa9")]), md);
        assert_eq!(one(&[(4096, b"\xfc\x4e\x2b\xa9")]), md);
    }

    #[test]
    fn the_smallest_counts() {
        // An md superblock at 4096 doesn't overwrite an ext superblock.
        let ext = [(1024 + 24, &b"\x02"[..]), (1024 + 56, b"\x53\xef")];
        let found =
            sniff(&image(&[ext[0], ext[1], (4096, b"\xfc\x4e\x2b\xa9")]));
        assert_eq!(smallest(&found).map(|f| f.sector_size), Some(512));
        let found = sniff(&image(&[(4096, b"EFI PART"), (32769, b"CD001")]));
        assert_eq!(smallest(&found).map(|f| f.sector_size), Some(2048));
        assert_eq!(smallest(&[]), None);
    }
}
