// SPDX-License-Identifier: GPL-2.0-only
//! The image: the file behind a device.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::content::{self, Finding};
use crate::device::DevId;
use crate::error::{Error, Exit, Result, reason};
use crate::ioctl::Info;
use crate::output::warn;
use crate::text::{count, shown};

/// Identifies an image independent of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// A regular file: the device number of its file system and its inode
    /// number.
    File(DevId, u64),
    /// A block device, by its device number.
    Block(DevId),
}

impl Identity {
    /// From a file's metadata.
    pub fn of(metadata: &Metadata) -> Self {
        if metadata.file_type().is_block_device() {
            Self::Block(DevId::from_stat(metadata.rdev()))
        } else {
            Self::File(DevId::from_stat(metadata.dev()), metadata.ino())
        }
    }

    /// From the driver's status.
    pub fn of_attached(info: &Info) -> Self {
        if info.lo_rdevice != 0 {
            Self::Block(DevId::from_kernel(info.lo_rdevice))
        } else {
            Self::File(DevId::from_kernel(info.lo_device), info.lo_inode)
        }
    }
}

/// An open image.
#[derive(Debug)]
pub struct Image {
    /// The name as given.
    pub path: PathBuf,
    /// The open file.
    pub file: File,
    /// Whether it is open read-only, requested or not.
    pub read_only: bool,
    /// Which file it is.
    pub identity: Identity,
    /// Its size in bytes.
    pub size: u64,
}

/// Why a file can't be an image: it is neither a regular file nor a block
/// device.
fn unsuitable(metadata: &Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    if kind.is_file() || kind.is_block_device() {
        None
    } else if kind.is_dir() {
        Some("is a directory")
    } else if kind.is_char_device() {
        Some("is a character device")
    } else if kind.is_fifo() {
        Some("is a pipe")
    } else {
        Some("is not a file")
    }
}

fn open_error(path: &Path, error: io::Error) -> Error {
    match Errno::from_io_error(&error) {
        Some(Errno::NOENT) => Error::new(Exit::NotFound, path, "no such file")
            .hint("make it first: floop create FILE SIZE"),
        Some(Errno::PERM) => Error::new(
            Exit::Permission,
            path,
            format_args!("cannot open for writing: {}", reason(&error)),
        )
        .hint("is it immutable (lsattr)? --read-only attaches it anyway"),
        Some(Errno::TXTBSY) => {
            Error::new(Exit::Busy, path, "is a program that is running")
                .hint("--read-only attaches it anyway")
        }
        _ => Error::os(path, "cannot open", error),
    }
}

impl Image {
    /// Opens an image; read-only if it can't be opened for writing, as losetup
    /// does.
    pub fn open(path: &Path, read_only: bool) -> Result<Self> {
        // Check the type first: opening a FIFO would block.
        let metadata =
            fs::metadata(path).map_err(|error| open_error(path, error))?;
        if let Some(cause) = unsuitable(&metadata) {
            return Err(Error::new(Exit::Unsuitable, path, cause)
                .hint("an image is a regular file or a block device"));
        }
        let open =
            |write| OpenOptions::new().read(true).write(write).open(path);
        let (file, read_only) = if read_only {
            (open(false).map_err(|error| open_error(path, error))?, true)
        } else {
            match open(true) {
                Ok(file) => (file, false),
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::ReadOnlyFilesystem
                            | ErrorKind::PermissionDenied
                    ) && Errno::from_io_error(&error)
                        != Some(Errno::PERM) =>
                {
                    let file =
                        open(false).map_err(|error| open_error(path, error))?;
                    let name = shown(path.as_os_str());
                    warn(&format!(
                        "{name}: attached read-only: {}",
                        reason(&error)
                    ));
                    (file, true)
                }
                Err(error) => return Err(open_error(path, error)),
            }
        };
        let failed =
            |error| Error::os(path, "cannot determine its size", error);
        let identity = Identity::of(&file.metadata().map_err(failed)?);
        let size = (&file).seek(SeekFrom::End(0)).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file, read_only, identity, size })
    }

    /// The bytes of the image between the offset and the size limit or the end.
    ///
    /// Less than a sector is an error.
    pub fn visible(
        &self,
        offset: u64,
        size_limit: Option<u64>,
        sector: u32,
    ) -> Result<u64> {
        let wrong =
            |cause: String| Error::new(Exit::Unsuitable, &self.path, cause);
        if self.size == 0 {
            return Err(wrong("is empty".to_owned())
                .hint("give it a size first: floop resize FILE SIZE"));
        }
        if offset >= self.size {
            let size = count(self.size, "byte");
            return Err(wrong(format!(
                "the offset {offset} is past its end ({size})"
            ))
            .hint("give an --offset inside the image"));
        }
        let visible = visible(self.size, offset, size_limit);
        if visible < u64::from(sector) {
            let cause = format!(
                "only {} would be visible, less than a sector of {sector}",
                count(visible, "byte")
            );
            return Err(wrong(cause)
                .hint("make it larger, or change --offset or --size-limit"));
        }
        Ok(visible)
    }

    /// The image's content from `offset` on.
    pub fn content(&self, offset: u64) -> Vec<Finding> {
        content_of(&self.file, offset)
    }
}

/// Finds a file that can be an image by its name, without opening it: another
/// file may get the name at any time, and opening that one may do anything. For
/// `reopen()`.
pub fn find(path: &Path) -> io::Result<(File, Metadata)> {
    let found = open_with(path, OFlags::PATH)?;
    let metadata = found.metadata()?;
    match unsuitable(&metadata) {
        Some(cause) => Err(io::Error::other(cause)),
        None => Ok((found, metadata)),
    }
}

/// Opens what was found.
pub fn reopen(found: &File, flags: OFlags) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    open_with(Path::new(&path), flags)
}

fn open_with(path: &Path, flags: OFlags) -> io::Result<File> {
    // The kernel's flags fit; one that didn't would open it as usual.
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// The size of a regular file or a block device.
pub fn size_of(mut file: &File) -> Option<u64> {
    file.seek(SeekFrom::End(0)).ok()
}

/// The bytes of an image of `size` between the offset and the limit or the end.
pub fn visible(size: u64, offset: u64, size_limit: Option<u64>) -> u64 {
    let rest = size.saturating_sub(offset);
    match size_limit {
        None | Some(0) => rest,
        Some(limit) => rest.min(limit),
    }
}

/// A file's content from `offset` on. Unreadable content counts as unknown.
pub fn content_of(file: &File, offset: u64) -> Vec<Finding> {
    let mut buffer = vec![0; content::SNIFF];
    let mut filled = 0;
    while let Some(rest) =
        buffer.get_mut(filled..).filter(|rest| !rest.is_empty())
    {
        match file.read_at(rest, offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    buffer.truncate(filled);
    content::sniff(&buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_visible() {
        assert_eq!(visible(1000, 0, None), 1000);
        assert_eq!(visible(1000, 400, None), 600);
        assert_eq!(visible(1000, 400, Some(0)), 600);
        assert_eq!(visible(1000, 400, Some(100)), 100);
        assert_eq!(visible(1000, 400, Some(9999)), 600);
        assert_eq!(visible(1000, 2000, Some(1)), 0);
    }
}
