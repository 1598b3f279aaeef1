// SPDX-License-Identifier: GPL-2.0-only
//! `floop resize`.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::Serialize;

use crate::cli::{self, NewSize};
use crate::device::Attachment;
use crate::error::{Error, Exit, Result};
use crate::image::{Identity, size_of, visible};
use crate::occupied::{self, Occupied};
use crate::output::{self, complain};
use crate::text::{bytes, shown};
use crate::{interrupt, ioctl, size, target, users, zeroes};

/// `resize --json`.
#[derive(Serialize)]
struct Report {
    file: String,
    old_size: u64,
    size: u64,
    thin: bool,
    devices: Vec<String>,
}

/// An image and the devices that show it.
struct Subject<'a> {
    /// The name that the user gave.
    name: &'a Path,
    path: PathBuf,
    file: File,
    size: u64,
    /// A block device can't be resized here.
    block: bool,
    devices: Vec<Shown>,
    /// Where the named device begins in the image; 0 for an image.
    offset: u64,
}

/// A device, open so that it stays attached.
struct Shown {
    attachment: Attachment,
    file: File,
}

/// Resizes an image and its devices. A failure leaves all as it was.
pub fn run(args: &cli::Resize) -> Result<()> {
    let subject = Subject::find(&args.target)?;
    let shown = subject.size.saturating_sub(subject.offset);
    let wanted = match args.size {
        NewSize::To(size) => Some(size),
        NewSize::By(more) => shown.checked_add(more),
    };
    let new = wanted
        .and_then(|wanted| wanted.checked_add(subject.offset))
        .filter(|new| i64::try_from(*new).is_ok())
        .ok_or_else(|| {
            let cause = "no file can be so large";
            Error::new(Exit::Unsuitable, &args.target, cause)
                .hint("give a smaller size")
        })?;
    size::check_image(new, &args.target)?;
    let claims = subject.check(new, args.shrink)?;
    interrupt::defer()
        .map_err(|error| Error::os(&args.target, "cannot wait", error))?;
    let thin = subject.is_thin();
    subject.resize(new, thin).inspect_err(|_| subject.undo(new))?;
    drop(claims);
    subject.tell(new, thin);
    if !args.json {
        return Ok(());
    }
    let node =
        |shown: &Shown| shown.attachment.device.node().display().to_string();
    output::print_json(&Report {
        file: subject.path.to_string_lossy().into_owned(),
        old_size: subject.size,
        size: new,
        thin,
        devices: subject.devices.iter().map(node).collect(),
    })
}

impl<'a> Subject<'a> {
    fn find(name: &'a Path) -> Result<Self> {
        let named = target::device_or_image(name)?;
        let path = match named {
            None => name.to_owned(),
            Some(device) => {
                let attachment = device
                    .attachment()
                    .ok_or_else(|| target::not_attached(name))?;
                let (image, deleted) = attachment.image();
                if deleted {
                    let cause = "its image was deleted";
                    return Err(Error::new(Exit::Unsuitable, name, cause)
                        .hint("copy it from the device to a new image"));
                }
                image.to_owned()
            }
        };
        let metadata = fs::metadata(&path)
            .map_err(|error| Error::os(&path, "cannot open", error))?;
        let kind = metadata.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            let cause = "is neither a file nor a block device";
            return Err(Error::new(Exit::Unsuitable, &path, cause)
                .hint("give an image, or a device"));
        }
        let file = OpenOptions::new()
            .read(true)
            .write(kind.is_file())
            .open(&path)
            .map_err(|error| Error::os(&path, "cannot open", error))?;
        let opened = file
            .metadata()
            .map_err(|error| Error::os(&path, "cannot open", error))?;
        let mut devices = Vec::new();
        for attachment in target::of_image(Identity::of(&opened))? {
            devices.push(Shown::open(attachment)?);
        }
        let mut offset = 0;
        if let Some(device) = named {
            let own = devices.iter().find(|d| d.attachment.device == device);
            let Some(own) = own else {
                let cause = "its image's name now belongs to another file";
                return Err(Error::new(Exit::Unsuitable, name, cause)
                    .hint("rename the image back"));
            };
            offset = own.attachment.offset;
            let limit = own.attachment.size_limit;
            if limit != 0 {
                let cause = format!("has a size limit, of {limit} bytes");
                return Err(Error::new(Exit::Unsuitable, name, cause).hint(
                    "detach it, and attach its image with another \
                     --size-limit",
                ));
            }
        }
        let size = size_of(&file).unwrap_or_default();
        let block = kind.is_block_device();
        Ok(Self { name, path, file, size, block, devices, offset })
    }

    /// Checks all that can be checked before anything changes. Returns the
    /// devices, claimed, if they are to shrink.
    fn check(&self, new: u64, shrink: bool) -> Result<Vec<File>> {
        let refuse =
            |cause: String| Error::new(Exit::Unsuitable, self.name, cause);
        if self.block && new != self.size {
            let path = shown(self.path.as_os_str());
            let cause = format!("the image is a block device, {path}");
            return Err(refuse(cause).hint("resize that first"));
        }
        for shown in &self.devices {
            let sector = shown.attachment.sector_size.max(512);
            let attachment = &shown.attachment;
            let limit = Some(attachment.size_limit);
            let rest = visible(new, attachment.offset, limit);
            if rest == 0 || rest % sector != 0 {
                let node = shown.attachment.device.node();
                let node = node.display();
                let cause = format!(
                    "{node} would have no whole number of sectors of {sector}"
                );
                return Err(refuse(cause).hint(format_args!(
                    "give a multiple of {sector}, or detach {node}"
                )));
            }
        }
        if new >= self.size {
            return Ok(Vec::new());
        }
        if !shrink {
            let cause = format!("has {} bytes, more than that", self.size);
            return Err(refuse(cause).hint(
                "--shrink cuts what is behind its last partition or file \
                 system",
            ));
        }
        let claims =
            self.devices.iter().map(Shown::claim).collect::<Result<_>>()?;
        self.check_content(new)?;
        Ok(claims)
    }

    /// Refuses to cut what is in use, and what can't be told.
    fn check_content(&self, new: u64) -> Result<()> {
        let refuse =
            |cause: String| Error::new(Exit::Unsuitable, self.name, cause);
        let mut offsets = vec![0];
        offsets.extend(self.devices.iter().map(|d| d.attachment.offset));
        offsets.sort_unstable();
        offsets.dedup();
        let mut found_any = false;
        for offset in offsets {
            let found = occupied::of(&self.file, offset);
            found_any |= !found.is_empty();
            for Occupied { what, end } in found {
                let Some(end) = end.and_then(|end| end.checked_add(offset))
                else {
                    let cause =
                        format!("holds {what}, whose end can't be told");
                    return Err(refuse(cause)
                        .hint("shrink it by the tools for what it holds"));
                };
                if new < end {
                    let cause = format!("holds {what} that needs {end} bytes");
                    return Err(refuse(cause)
                        .hint("shrink that first, or give a larger size"));
                }
            }
        }
        if found_any {
            return Ok(());
        }
        let cause = "holds nothing that is known, so its end can't be told";
        Err(refuse(cause.to_owned())
            .hint("truncate -s cuts a file all the same"))
    }

    /// Whether the image has holes, as far as its count of blocks goes.
    fn is_thin(&self) -> bool {
        self.size == 0
            || self
                .file
                .metadata()
                .is_ok_and(|stat| stat.blocks() < stat.size() / 512)
    }

    fn resize(&self, new: u64, thin: bool) -> Result<()> {
        let failed =
            |error| Error::os(&self.path, "cannot change its size", error);
        if new != self.size {
            if new > self.size && !thin {
                zeroes::write(&self.file, self.size..new, &self.path)?;
            }
            self.file.set_len(new).map_err(failed)?;
            self.file.sync_all().map_err(failed)?;
        }
        interrupt::check(self.name)?;
        for shown in &self.devices {
            shown.take_over()?;
        }
        Ok(())
    }

    /// Makes all as it was; what a shrink has cut was not in use.
    fn undo(&self, new: u64) {
        if new == self.size {
            return;
        }
        // The caller gets the first error.
        let _ = self.file.set_len(self.size);
        for shown in &self.devices {
            let _ = shown.take_over();
        }
    }

    /// Says what happened, and what is still to be done.
    fn tell(&self, new: u64, thin: bool) {
        let name = shown(self.path.as_os_str());
        let how = match (new > self.size, thin) {
            (false, _) => "",
            (true, true) => "; the new part is sparse, as the image is",
            (true, false) => "; the new part is written, as the image is",
        };
        complain(&format!("{name}: {} now{how}", bytes(new)));
        for shown in &self.devices {
            if shown.attachment.size_limit != 0 {
                complain(&format!(
                    "{}: keeps its size limit, of {} bytes",
                    shown.attachment.device.node().display(),
                    shown.attachment.size_limit
                ));
            }
        }
        let found = occupied::of(&self.file, self.offset);
        let Some(content) = found.first() else { return };
        let node = self.devices.first().map_or_else(
            || "DEVICE".to_owned(),
            |d| d.attachment.device.node().display().to_string(),
        );
        let advice = if new < self.size {
            match content.what {
                "a GPT" => format!(
                    "sgdisk -e {node} writes the copy of its \
                                    table that was cut"
                ),
                _ => return,
            }
        } else {
            match content.what {
                "an ext file system" => format!("grow it: resize2fs {node}"),
                "an XFS file system" => {
                    "grow it, mounted: xfs_growfs MOUNTPOINT".to_owned()
                }
                "a Btrfs file system" => "grow it, mounted: btrfs filesystem \
                                          resize max MOUNTPOINT"
                    .to_owned(),
                "a GPT" | "a DOS partition table" => format!(
                    "grow its last partition: growpart {node} NUMBER; then \
                     what is on that"
                ),
                "a LUKS header" => "grow it: cryptsetup resize NAME".to_owned(),
                "an LVM physical volume" => format!("grow it: pvresize {node}"),
                _ => return,
            }
        };
        complain(&format!("{name}: holds {}; {advice}", content.what));
    }
}

impl Shown {
    fn open(attachment: Attachment) -> Result<Self> {
        let node = attachment.device.node();
        let file = File::open(&node)
            .map_err(|error| Error::os(&node, "cannot open", error))?;
        if attachment.is_current() {
            Ok(Self { attachment, file })
        } else {
            Err(target::not_attached(&node))
        }
    }

    /// Claims the device, so that nobody can mount it, in other namespaces
    /// either, until the file is closed. It is an error if anybody uses it.
    fn claim(&self) -> Result<File> {
        let node = self.attachment.device.node();
        let in_use = |who: String| {
            Error::new(Exit::Busy, &node, format!("is in use{who}"))
                .hint("it can't shrink until that has ended")
        };
        let users = users::of(self.attachment.device);
        if !users.is_empty() {
            return Err(in_use(format!(": {}", users.describe())));
        }
        let flags = i32::try_from(OFlags::EXCL.bits()).unwrap_or_default();
        let opened =
            OpenOptions::new().read(true).custom_flags(flags).open(&node);
        opened.map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::BUSY) => in_use(String::new()),
            _ => Error::os(&node, "cannot open", error),
        })
    }

    /// Makes the device as large as its image.
    fn take_over(&self) -> Result<()> {
        ioctl::set_capacity(&self.file).map_err(|error| {
            let node = self.attachment.device.node();
            Error::os(&node, "cannot change its size", error)
        })
    }
}
