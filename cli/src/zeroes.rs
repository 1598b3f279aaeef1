// SPDX-License-Identifier: GPL-2.0-only
//! Writing zeroes to a file, so that its blocks are written ones: a hole or an
//! unwritten extent can't be mapped.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::{dio, interrupt};

/// `FALLOC_FL_WRITE_ZEROES`, since Linux 6.17: written extents of zeroes, where
/// the disk makes them without writing.
const WRITE_ZEROES: FallocateFlags = FallocateFlags::from_bits_retain(0x80);

/// How much to make by one call of fallocate. A signal waits for it.
const STEP: u64 = 256 << 20;
/// How much to write by one call.
const PIECE: usize = 4 << 20;
/// How much to leave in the page cache.
const DIRTY: u64 = 64 << 20;

/// The ways to make zeroes, the cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By fallocate.
    Offload,
    /// By direct writes.
    Direct,
    /// Through the page cache.
    Buffered,
}

/// Writes zeroes to a range, which may be past the end of the file, with a
/// progress bar on a terminal. The caller makes them durable.
///
/// `name` is the name that the user gave.
pub fn write(file: &File, range: Range<u64>, name: &Path) -> Result<()> {
    let bar = progress(range.end.saturating_sub(range.start));
    let result = fill(file, range, name, &bar);
    bar.finish_and_clear();
    result
}

fn progress(len: u64) -> ProgressBar {
    // It is hidden unless standard error is a terminal.
    let bar = ProgressBar::new(len);
    let style = "{wide_bar} {binary_bytes}/{binary_total_bytes} {eta}";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar
}

fn fill(
    file: &File,
    range: Range<u64>,
    name: &Path,
    bar: &ProgressBar,
) -> Result<()> {
    let failed =
        |error: io::Error| Error::os(name, "cannot write zeroes", error);
    // Few extents, and an error at once if the disk has no room. A file system
    // may be unable to do it.
    match reserve(file, &range) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) | Ok(()) => {}
        Err(error) => return Err(failed(error.into())),
    }
    let mut at = range.start;
    let mut writer = Writer::new(file);
    while at < range.end {
        interrupt::check(name)?;
        let done = match writer.step(file, at, range.end) {
            Ok(done) => done,
            Err(error) if error.kind() == ErrorKind::Interrupted => 0,
            Err(error) => return Err(failed(error)),
        };
        at += done;
        bar.set_position(at - range.start);
    }
    Ok(())
}

fn reserve(file: &File, range: &Range<u64>) -> rustix::io::Result<()> {
    let len = range.end - range.start;
    loop {
        match fallocate(file, FallocateFlags::empty(), range.start, len) {
            Err(Errno::INTR) if !interrupt::has_come() => {}
            result => return result,
        }
    }
}

/// Writes zeroes, in a less cheap way once one is refused.
struct Writer {
    way: Way,
    memory: Vec<u8>,
    /// Where in the memory the aligned part begins.
    skip: usize,
    /// The file, opened for direct I/O, and the alignment.
    direct: Option<(File, u64)>,
    dirty: u64,
}

impl Writer {
    fn new(file: &File) -> Self {
        let memory = vec![0; 2 * PIECE];
        let skip = memory.as_ptr().align_offset(PIECE);
        let direct = dio::alignment(file).and_then(|alignment| {
            Some((reopen_direct(file)?, alignment.into()))
        });
        Self { way: Way::Offload, memory, skip, direct, dirty: 0 }
    }

    /// Writes something at the start of a range; returns how much.
    fn step(&mut self, file: &File, at: u64, end: u64) -> io::Result<u64> {
        if self.way == Way::Offload {
            let len = STEP.min(end - at);
            match fallocate(file, WRITE_ZEROES, at, len) {
                Ok(()) => return Ok(len),
                Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => {
                    self.way = Way::Direct;
                }
                Err(error) => return Err(error.into()),
            }
        }
        if self.way == Way::Direct {
            match self.write_direct(at, end) {
                Some(Err(error))
                    if matches!(
                        Errno::from_io_error(&error),
                        Some(Errno::INVAL | Errno::OPNOTSUPP)
                    ) =>
                {
                    self.way = Way::Buffered;
                }
                Some(result) => return result,
                None => {}
            }
        }
        self.write_buffered(file, at, end)
    }

    /// A direct write, if what is at `at` is aligned for it.
    fn write_direct(&self, at: u64, end: u64) -> Option<io::Result<u64>> {
        let (direct, alignment) = self.direct.as_ref()?;
        let len = (end - at).min(PIECE as u64);
        let len = len - len % alignment;
        if at % alignment != 0 || len == 0 {
            return None;
        }
        Some(put(direct, &self.memory[self.skip..], at, len))
    }

    /// A write through the page cache; of no more than the alignment, where the
    /// next one may be direct.
    fn write_buffered(
        &mut self,
        file: &File,
        at: u64,
        end: u64,
    ) -> io::Result<u64> {
        let next = match &self.direct {
            Some((_, alignment)) if self.way == Way::Direct => {
                alignment - at % alignment
            }
            _ => PIECE as u64,
        };
        let done = put(file, &self.memory, at, next.min(end - at))?;
        self.dirty += done;
        if self.dirty >= DIRTY {
            file.sync_data()?;
            self.dirty = 0;
        }
        Ok(done)
    }
}

fn put(file: &File, memory: &[u8], at: u64, len: u64) -> io::Result<u64> {
    let len = usize::try_from(len).unwrap_or(PIECE).min(PIECE);
    match file.write_at(&memory[..len], at)? {
        0 => Err(ErrorKind::WriteZero.into()),
        done => Ok(done as u64),
    }
}

fn reopen_direct(file: &File) -> Option<File> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = i32::try_from(OFlags::DIRECT.bits()).ok()?;
    OpenOptions::new().write(true).custom_flags(flags).open(path).ok()
}
