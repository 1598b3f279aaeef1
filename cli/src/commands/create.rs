// SPDX-License-Identifier: GPL-2.0-only
//! `floop create`.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, OFlags, linkat};
use rustix::io::Errno;
use serde::Serialize;

use crate::error::{Error, Exit, Result};
use crate::{cli, interrupt, output, size, zeroes};

/// `create --json`.
#[derive(Serialize)]
struct Report {
    file: String,
    size: u64,
    thin: bool,
}

/// An image in the making. Unless it is finished, nothing of it stays.
struct Draft {
    path: PathBuf,
    folder: PathBuf,
    file: File,
    /// It has its name already.
    named: bool,
    finished: bool,
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.named && !self.finished {
            // The caller gets the first error.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Makes an image.
pub fn run(args: &cli::Create) -> Result<()> {
    size::check_image(args.size, &args.file)?;
    interrupt::defer()
        .map_err(|error| Error::os(&args.file, "cannot wait", error))?;
    let mut draft = Draft::begin(&args.file)?;
    draft
        .file
        .set_len(args.size)
        .map_err(|error| Error::os(&args.file, "cannot set its size", error))?;
    if !args.thin {
        zeroes::write(&draft.file, 0..args.size, &args.file)?;
    }
    draft.save()?;
    if args.json {
        output::print_json(&Report {
            file: args.file.to_string_lossy().into_owned(),
            size: args.size,
            thin: args.thin,
        })?;
    }
    interrupt::check(&args.file)?;
    draft.finished = true;
    Ok(())
}

fn exists(path: &Path) -> Error {
    Error::new(Exit::Unsuitable, path, "exists already")
        .hint("remove it first, or change its size (floop resize)")
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => PathBuf::from("."),
        Some(folder) => folder.to_owned(),
        None => PathBuf::from("/"),
    }
}

impl Draft {
    /// A file without a name, which nothing can leave behind; where the file
    /// system has no such files, one with its name.
    fn begin(path: &Path) -> Result<Self> {
        if path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
        let folder = folder_of(path);
        let flags = i32::try_from(OFlags::TMPFILE.bits()).unwrap_or_default();
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let unnamed = options.clone().custom_flags(flags).open(&folder);
        let (file, named) = match unnamed {
            Ok(file) => (file, false),
            Err(error)
                if matches!(
                    Errno::from_io_error(&error),
                    Some(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL)
                ) =>
            {
                match options.create_new(true).open(path) {
                    Ok(file) => (file, true),
                    Err(error)
                        if Errno::from_io_error(&error)
                            == Some(Errno::EXIST) =>
                    {
                        return Err(exists(path));
                    }
                    Err(error) => {
                        return Err(Error::os(path, "cannot make it", error));
                    }
                }
            }
            Err(error) => {
                return Err(Error::os(path, "cannot make it", error));
            }
        };
        let path = path.to_owned();
        Ok(Self { path, folder, file, named, finished: false })
    }

    /// Makes it durable, and gives it its name.
    fn save(&mut self) -> Result<()> {
        let failed = |error| Error::os(&self.path, "cannot save it", error);
        self.file.sync_all().map_err(failed)?;
        interrupt::check(&self.path)?;
        if !self.named {
            let from = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            let flags = AtFlags::SYMLINK_FOLLOW;
            match linkat(CWD, from.as_str(), CWD, &self.path, flags) {
                Ok(()) => self.named = true,
                Err(Errno::EXIST) => return Err(exists(&self.path)),
                Err(error) => return Err(failed(error.into())),
            }
        }
        let folder = File::open(&self.folder);
        folder.and_then(|folder| folder.sync_all()).map_err(failed)
    }
}
