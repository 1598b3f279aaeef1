// SPDX-License-Identifier: GPL-2.0-only
//! Finding a free device, or the one that is asked for, and attaching an image
//! to it.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::system::uname;

use crate::device::{DevId, Device};
use crate::driver::Control;
use crate::error::{Error, Exit, Result};
use crate::image::{Identity, Image};
use crate::interrupt;
use crate::ioctl::{self, Config};
use crate::text::shown;
use crate::wait;

/// How long to try while other processes take each device that is free.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How many times in a row a free device may be busy before a new one is added.
const MAX_CLAIMED: u32 = 8;

/// How long a device that is asked for may be busy, while another image goes.
const GRACE: Duration = Duration::from_secs(2);

const REFUSED: &str = "the driver refuses it as an image";

/// The result of an attempt to attach to one free device.
enum Attempt {
    Done(Device, File),
    /// Another process was faster, or the device was removed.
    Again,
    /// The device stays free but is busy: a process has it open exclusively.
    Claimed,
}

/// Finds a free device and attaches the image to it. Other processes may do the
/// same at the same time.
pub fn attach(
    control: &Control,
    image: &Image,
    config: &Config,
    sector_size: Option<u32>,
) -> Result<(Device, File)> {
    let start = Instant::now();
    let mut claimed = 0;
    let mut pause = Duration::from_millis(1);
    while start.elapsed() < TIMEOUT {
        interrupt::check(&image.path)?;
        let number = if claimed < MAX_CLAIMED {
            ioctl::get_free(&control.file)
        } else {
            claimed = 0;
            ioctl::add_any(&control.file)
        };
        let number = match number {
            Ok(number) => number,
            Err(Errno::INTR | Errno::EXIST | Errno::AGAIN) => continue,
            Err(error) => {
                return Err(Error::os(
                    &control.path,
                    "cannot get a free device",
                    error,
                ));
            }
        };
        let device = Device { family: control.family, number };
        match attempt(device, image, config, sector_size)? {
            Attempt::Done(device, file) => return Ok((device, file)),
            Attempt::Again => claimed = 0,
            Attempt::Claimed => claimed += 1,
        }
        sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    let cause = format!(
        "no free device in {} seconds: other processes took each one",
        TIMEOUT.as_secs()
    );
    Err(Error::new(Exit::Busy, &image.path, cause).hint("try again"))
}

/// Attaches the image to the device of this number, which is made if need be.
/// Also returns whether it was.
pub fn attach_at(
    control: &Control,
    number: u32,
    image: &Image,
    config: &Config,
    sector_size: Option<u32>,
) -> Result<(Device, File, bool)> {
    let device = Device { family: control.family, number };
    let node = device.node();
    let added = match ioctl::add(&control.file, number) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(Errno::INVAL) => {
            let cause = "the driver has no device of this number";
            return Err(Error::new(Exit::Unsuitable, &node, cause)
                .hint("give a smaller --number"));
        }
        Err(error) => {
            return Err(Error::os(&node, "cannot make it", error));
        }
    };
    let mut result = Ok(Attempt::Again);
    wait::until(GRACE, || {
        result = attempt(device, image, config, sector_size);
        device.is_attached()
            || !matches!(result, Ok(Attempt::Again | Attempt::Claimed))
    });
    match result {
        Ok(Attempt::Done(device, file)) => return Ok((device, file, added)),
        Ok(_) => {}
        Err(error) => {
            if added {
                // Leave no device behind that nobody knows of.
                remove_again(control, number);
            }
            return Err(error);
        }
    }
    interrupt::check(&image.path)?;
    let cause = match device.attachment() {
        Some(other) => {
            let name = shown(other.image().0.as_os_str());
            format!("{name} is attached to it")
        }
        None => "is busy: a process has it open exclusively".to_owned(),
    };
    Err(Error::new(Exit::Busy, &node, cause)
        .hint("give another --number, or leave it out for a free device"))
}

/// Removes a device that was made for an image, which is detached again. Others
/// may still look at it for a moment; and if udev was about to open it, the
/// driver would make it once more.
pub fn remove_again(control: &Control, number: u32) {
    wait::for_udev(GRACE);
    wait::despite_signals(GRACE, || {
        ioctl::remove(&control.file, number).is_ok()
    });
}

/// Opens a free device; `None` if it was removed or can't be opened just now.
fn open_node(device: Device, read_only: bool) -> Result<Option<File>> {
    let node = device.node();
    let mut opened = Ok(None);
    // udev makes the node some time after the kernel has made the device. Until
    // then the name may belong to another device.
    let settled = wait::until(wait::NODES, || {
        let node = OpenOptions::new().read(true).write(!read_only).open(&node);
        opened = match node {
            Ok(file) => {
                let metadata = file.metadata();
                let id = metadata.map(|m| DevId::from_stat(m.rdev()));
                if id.ok() == device.id() {
                    Ok(Some(file))
                } else if device.exists() {
                    return false;
                } else {
                    Ok(None)
                }
            }
            Err(error)
                if error.kind() == ErrorKind::NotFound && device.exists() =>
            {
                return false;
            }
            Err(error) => Err(error),
        };
        true
    });
    if !settled {
        let id = device
            .id()
            .map(|id| format!("{} {}", id.major, id.minor))
            .unwrap_or_default();
        let node = node.display();
        let cause = format!(
            "the kernel has this device, but its node has not appeared in {} \
             seconds",
            wait::NODES.as_secs()
        );
        return Err(Error::new(Exit::Failed, &device.node(), cause)
            .hint(format_args!("make it: rm -f {node}; mknod {node} b {id}")));
    }
    match opened {
        Ok(file) => Ok(file),
        Err(error) => match Errno::from_io_error(&error) {
            Some(
                Errno::NOENT
                | Errno::NXIO
                | Errno::NODEV
                | Errno::BUSY
                | Errno::INTR,
            ) => Ok(None),
            _ => Err(Error::os(&node, "cannot open", error)),
        },
    }
}

/// Tries to attach the image to one device that was free a moment ago.
fn attempt(
    device: Device,
    image: &Image,
    config: &Config,
    sector_size: Option<u32>,
) -> Result<Attempt> {
    let Some(file) = open_node(device, image.read_only)? else {
        return Ok(Attempt::Again);
    };
    match ioctl::configure(&file, config) {
        Ok(()) => {
            if !image.read_only && device.is_read_only() {
                // Somebody has made it that (`floop set --read-only`) for an
                // image that it had before. If it fails, it is what the user
                // sees.
                let _ = ioctl::set_read_only(&file, false);
            }
            Ok(Attempt::Done(device, file))
        }
        Err(Errno::BUSY) if device.is_attached() => Ok(Attempt::Again),
        Err(Errno::BUSY) => Ok(Attempt::Claimed),
        Err(Errno::NXIO | Errno::NODEV | Errno::INTR) => Ok(Attempt::Again),
        Err(error) => Err(refused(device, image, sector_size, error)),
    }
}

/// Explains why the driver refused the image.
fn refused(
    device: Device,
    image: &Image,
    sector_size: Option<u32>,
    error: Errno,
) -> Error {
    let unsuitable =
        |cause: &str| Error::new(Exit::Unsuitable, &image.path, cause);
    match error {
        Errno::INVAL | Errno::NOTTY => {
            let kernel = uname().release().to_string_lossy().into_owned();
            if !has_configure(&kernel) {
                let cause = format!(
                    "this kernel ({kernel}) is too old: it has no \
                     LOOP_CONFIGURE"
                );
                return Error::general(Exit::NoDriver, cause)
                    .hint("Linux 5.8 and later have it");
            }
            match (sector_size, image.identity) {
                (Some(size), _) if size > 512 => {
                    let cause = format!(
                        "this kernel can't give {} a sector size of {size}",
                        device.node().display()
                    );
                    unsuitable(&cause)
                        .hint("4096 is the largest that every kernel supports")
                }
                (_, Identity::Block(_)) => unsuitable(REFUSED)
                    .hint("is it a loop device that nothing is attached to?"),
                _ => unsuitable(REFUSED)
                    .hint("its file system may not be able to serve one"),
            }
        }
        Errno::BADF | Errno::LOOP => {
            let cause = format!(
                "depends on {}, which would depend on it",
                device.node().display()
            );
            unsuitable(&cause).hint("attach the file beneath it instead")
        }
        Errno::FBIG | Errno::OVERFLOW => {
            unsuitable("is too large for a block device")
        }
        error => Error::os(
            &image.path,
            &format!("cannot attach it to {device}"),
            error,
        ),
    }
}

/// Whether a kernel of this release has `LOOP_CONFIGURE`, which came with 5.8.
fn has_configure(release: &str) -> bool {
    let mut parts =
        release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (5, 8),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_are_too_old() {
        assert!(has_configure("5.8.0-rc1"));
        assert!(has_configure("10.0"));
        assert!(has_configure("strange"));
        assert!(!has_configure("5.7.19-generic"));
        assert!(!has_configure("4.19.0"));
    }
}
