// SPDX-License-Identifier: GPL-2.0-only
//! `floop detach`.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::Serialize;

use crate::cli::{self, DriverFilter};
use crate::device::{self, Attachment, Device, Family};
use crate::error::{Error, Exit, Result};
use crate::output::{self, complain};
use crate::target::{self, not_attached};
use crate::text::shown;
use crate::{holder, ioctl, users, wait};

/// The state of a device after the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    /// Detached.
    Detached,
    /// To be detached when its last user closes it.
    Pending,
    /// Not detached because of --dry-run.
    WouldDetach,
}

/// One device in the report.
#[derive(Debug, Serialize)]
struct Outcome {
    device: String,
    backing_file: String,
    state: State,
}

/// `detach --json`.
#[derive(Debug, Serialize)]
struct Report {
    devices: Vec<Outcome>,
}

/// Detaches what the arguments name. After a failure it goes on with the rest.
pub fn run(args: &cli::Detach) -> Result<()> {
    let mut outcomes = Vec::new();
    let mut first_error = None;
    let mut failed = |error: Error| match &first_error {
        None => first_error = Some(error),
        Some(_) => complain(&error.to_string()),
    };
    let mut detach = |attachment: &Attachment| -> Result<()> {
        let outcome = one(attachment, args)?;
        if !args.json {
            announce(attachment, &outcome);
        }
        outcomes.push(outcome);
        Ok(())
    };
    if args.all || args.unused || args.deleted {
        for attachment in device::attached()
            .into_iter()
            .filter(|a| wanted(a.device, args.driver))
            .filter(|a| args.all || is_left(a, args.deleted))
        {
            match detach(&attachment) {
                // Another process has detached it meanwhile.
                Err(error) if error.exit == Exit::NotFound => {}
                result => result.unwrap_or_else(&mut failed),
            }
        }
    }
    for target in &args.targets {
        match target::attachments(target) {
            Ok(attachments) => {
                for attachment in attachments {
                    detach(&attachment).unwrap_or_else(&mut failed);
                }
            }
            Err(error) => failed(error),
        }
    }
    if args.json {
        output::print_json(&Report { devices: outcomes })?;
    }
    first_error.map_or(Ok(()), Err)
}

fn wanted(device: Device, filter: Option<DriverFilter>) -> bool {
    match filter {
        None => true,
        Some(DriverFilter::Floop) => device.family == Family::Floop,
        Some(DriverFilter::Loop) => device.family == Family::Loop,
    }
}

/// Whether nobody uses a device, and, with `deleted`, its image was deleted.
fn is_left(attachment: &Attachment, deleted: bool) -> bool {
    if deleted && !attachment.image().1 {
        return false;
    }
    let device = attachment.device;
    let users = users::of(device);
    let in_use = !users.is_empty() || is_claimed(device);
    if in_use && deleted {
        let who = if users.is_empty() {
            String::new()
        } else {
            format!(": {}", users.describe())
        };
        complain(&format!(
            "{} stays, as it is in use{who} (its image is deleted, {})",
            device.node().display(),
            shown(attachment.image().0.as_os_str())
        ));
    }
    !in_use
}

/// Whether it is mounted or claimed, maybe in another mount namespace.
fn is_claimed(device: Device) -> bool {
    let flags = i32::try_from(OFlags::EXCL.bits()).unwrap_or_default();
    let opened =
        OpenOptions::new().read(true).custom_flags(flags).open(device.node());
    opened.is_err_and(|e| Errno::from_io_error(&e) == Some(Errno::BUSY))
}

/// Detaches one device.
fn one(attachment: &Attachment, args: &cli::Detach) -> Result<Outcome> {
    let outcome = |state| Outcome {
        device: attachment.device.node().display().to_string(),
        backing_file: attachment.image().0.to_string_lossy().into_owned(),
        state,
    };
    if args.dry_run {
        return Ok(outcome(State::WouldDetach));
    }
    let device = attachment.device;
    let node = device.node();
    let made_read_only;
    {
        let file = match File::open(&node) {
            Ok(file) => file,
            // The kernel is about to detach it and refuses to open it.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NXIO) => {
                return Ok(outcome(await_end(attachment, args.lazy)));
            }
            Err(error) => return Err(Error::os(&node, "cannot open", error)),
        };
        // Another process may have attached another image meanwhile.
        if !attachment.is_current() {
            return Err(not_attached(&node));
        }
        made_read_only = attachment.read_only
            && ioctl::status(&file)
                .is_ok_and(|info| info.lo_flags & ioctl::READ_ONLY == 0);
        loop {
            match ioctl::clear(&file) {
                Ok(()) => break,
                Err(Errno::INTR) => {}
                Err(Errno::NXIO) => return Err(not_attached(&node)),
                Err(error) => {
                    return Err(Error::os(&node, "cannot detach it", error));
                }
            }
        }
    }
    if attachment.autoclear {
        holder::end(device);
    }
    let state = await_end(attachment, args.lazy);
    if made_read_only && state == State::Detached {
        // The next image isn't meant. If it fails, `attach` does the same.
        let _ = File::open(&node).map(|file| ioctl::set_read_only(file, false));
    }
    Ok(outcome(state))
}

/// Waits until the device is detached, but not for users that stay.
fn await_end(attachment: &Attachment, lazy: bool) -> State {
    let gone = || !attachment.is_current();
    if gone() {
        return State::Detached;
    }
    let limit = if lazy || users::of(attachment.device).are_lasting() {
        Duration::ZERO
    } else {
        wait::PROBES
    };
    if wait::until(limit, gone) { State::Detached } else { State::Pending }
}

fn announce(attachment: &Attachment, outcome: &Outcome) {
    let image = shown(attachment.image().0.as_os_str());
    let device = &outcome.device;
    complain(&match outcome.state {
        State::Detached => format!("{device} detached ({image})"),
        State::WouldDetach => format!("{device} would be detached ({image})"),
        State::Pending => {
            let users = users::of(attachment.device);
            let who = if users.is_empty() {
                "in use".to_owned()
            } else {
                format!("in use: {}", users.describe())
            };
            format!(
                "{device} is {who}; it will be detached when its last user \
                 closes it ({image})"
            )
        }
    });
}
