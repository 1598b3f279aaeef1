// SPDX-License-Identifier: GPL-2.0-only
//! `floop watch`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with,
};
use serde::Serialize;

use crate::device::{self, Attachment, Device};
use crate::error::{Error, Exit, Result, reason};
use crate::mapping::Break;
use crate::text::shown;
use crate::{cli, clock, signals};

/// The kernel's uevents, before udev has seen them.
const KERNEL_GROUP: u32 = 1;
/// How long the kernel may take to show in sysfs what it has reported.
const SOON: Duration = Duration::from_millis(50);

/// Something that has happened.
#[derive(Debug, PartialEq, Serialize)]
struct Event {
    time: f64,
    #[serde(rename = "event")]
    name: &'static str,
    device: String,
    backing_file: String,
    /// The image, safe to print.
    #[serde(skip)]
    image: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_break: Option<Break>,
}

impl Event {
    fn new(name: &'static str, of: &Attachment) -> Self {
        Self {
            time: clock::seconds(),
            name,
            device: of.device.node().display().to_string(),
            backing_file: of.image().0.to_string_lossy().into_owned(),
            image: shown(of.image().0.as_os_str()),
            size: None,
            count: None,
            reason: None,
            last_break: None,
        }
    }

    fn line(&self, json: bool) -> String {
        if json {
            return serde_json::to_string(self).unwrap_or_default();
        }
        let mut line = format!(
            "{} {} {} {}",
            clock::now(),
            self.name,
            self.device,
            self.image
        );
        if let Some(size) = self.size {
            let _ = write!(line, " size={size}");
        }
        if let Some(count) = self.count {
            let _ = write!(line, " count={count}");
        }
        if let Some(by) = self.last_break.as_ref().and_then(Break::by) {
            let _ = write!(line, " by {by}");
        }
        if let Some(reason) = &self.reason {
            let _ = write!(line, " ({reason})");
        }
        line
    }
}

/// An attachment, with the errors of the file systems on it.
#[derive(Clone)]
struct State {
    attachment: Attachment,
    errors: u64,
}

impl State {
    /// The I/Os that have failed, if the driver tells.
    fn failed(&self) -> Option<u64> {
        self.attachment.mapping.as_ref()?.ios_failed
    }
}

/// Prints what happens, until a signal or until nobody reads it.
pub fn run(args: &cli::Watch) -> Result<()> {
    match watch(args) {
        // Whoever read it has ended.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|error| {
            let why = reason(&error);
            Error::general(Exit::Failed, format_args!("watch: {why}"))
        }),
    }
}

fn watch(args: &cli::Watch) -> io::Result<()> {
    let end = signals::end()?;
    // Without the kernel's reports it looks all the same, only later.
    let uevents = uevents().ok();
    let mut before = BTreeMap::new();
    let mut first = true;
    loop {
        let now = look();
        let mut events = compare(&before, &now);
        if first {
            for event in &mut events {
                event.name = "present";
            }
        }
        first = false;
        before = now;
        let mut out = io::stdout().lock();
        for event in events {
            writeln!(out, "{}", event.line(args.json))?;
        }
        out.flush()?;
        drop(out);
        if !wait(&end, uevents.as_ref(), args.interval)? {
            return Ok(());
        }
    }
}

/// A socket that the kernel's reports come to.
fn uevents() -> rustix::io::Result<OwnedFd> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        Some(netlink::KOBJECT_UEVENT),
    )?;
    bind(&socket, &SocketAddrNetlink::new(0, KERNEL_GROUP))?;
    Ok(socket)
}

/// Waits for the kernel's report about a device of ours, or for the time to
/// look again. Returns whether to go on.
fn wait(
    end: &impl std::os::fd::AsFd,
    uevents: Option<&OwnedFd>,
    interval: Duration,
) -> io::Result<bool> {
    let mut until = Instant::now() + interval;
    loop {
        let rest = until.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return Ok(true);
        }
        let out = io::stdout();
        // A pipe reports an error when nobody reads from it any more.
        let mut fds = vec![
            PollFd::new(end, PollFlags::IN),
            PollFd::new(&out, PollFlags::empty()),
        ];
        fds.extend(uevents.map(|fd| PollFd::new(fd, PollFlags::IN)));
        let time = Timespec {
            tv_sec: i64::try_from(rest.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: rest.subsec_nanos().into(),
        };
        match poll(&mut fds, Some(&time)) {
            Err(Errno::INTR) => continue,
            result => result?,
        };
        let ready = |at: usize| {
            fds.get(at).is_some_and(|fd: &PollFd| !fd.revents().is_empty())
        };
        if ready(0) || ready(1) {
            return Ok(false);
        }
        if ready(2) && uevents.is_some_and(is_ours) {
            until = until.min(Instant::now() + SOON);
        }
    }
}

/// Reads what has come. Returns whether any of it is about our devices.
fn is_ours(socket: &OwnedFd) -> bool {
    let mut buffer = vec![0; 8192];
    let mut ours = false;
    loop {
        match recv(socket, &mut buffer[..], RecvFlags::DONTWAIT) {
            Ok((len, _)) => {
                let text = buffer.get(..len).unwrap_or_default();
                ours |= text
                    .split(|byte| *byte == 0)
                    .next()
                    .is_some_and(is_about_a_device);
            }
            Err(Errno::INTR) => {}
            // Some were lost.
            Err(Errno::NOBUFS) => ours = true,
            Err(_) => return ours,
        }
    }
}

/// A report begins with `ACTION@/devices/virtual/block/NAME`.
fn is_about_a_device(head: &[u8]) -> bool {
    String::from_utf8_lossy(head)
        .split_once("/virtual/block/")
        .and_then(|(_, path)| path.split('/').next())
        .is_some_and(|name| name.parse::<Device>().is_ok())
}

fn look() -> BTreeMap<Device, State> {
    device::attached()
        .into_iter()
        .map(|attachment| {
            let errors = errors(attachment.device);
            (attachment.device, State { attachment, errors })
        })
        .collect()
}

/// The errors that ext4 has counted on a device and its partitions. No other
/// file system counts them in sysfs.
fn errors(device: Device) -> u64 {
    let whole = device.sysfs();
    let parts = device.partitions().into_iter().map(|part| part.sysfs);
    std::iter::once(whole)
        .chain(parts)
        .filter_map(|folder| {
            let name = folder.file_name()?.to_str()?.to_owned();
            let path = format!("/sys/fs/ext4/{name}/errors_count");
            fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()
        })
        .sum()
}

/// What has happened between two looks.
fn compare(
    before: &BTreeMap<Device, State>,
    now: &BTreeMap<Device, State>,
) -> Vec<Event> {
    let mut events = Vec::new();
    for (device, old) in before {
        let same = now.get(device).is_some_and(|new| {
            new.attachment.sequence == old.attachment.sequence
        });
        if !same {
            events.push(Event::new("detach", &old.attachment));
        }
    }
    for (device, new) in now {
        let attachment = &new.attachment;
        let old = before
            .get(device)
            .filter(|old| old.attachment.sequence == attachment.sequence);
        match old {
            None => {
                let mut event = Event::new("attach", attachment);
                event.size = Some(attachment.size);
                events.push(event);
            }
            Some(old) => changes(old, new, &mut events),
        }
    }
    events
}

/// What has happened to an image that was attached before.
fn changes(old: &State, new: &State, events: &mut Vec<Event>) {
    let attachment = &new.attachment;
    if old.attachment.size != attachment.size {
        let mut event = Event::new("resize", attachment);
        event.size = Some(attachment.size);
        events.push(event);
    }
    let mapping = attachment.mapping.as_ref();
    let last_break = mapping.and_then(|mapping| mapping.last_break.as_ref());
    let mut counted = |name, then: u64, now: u64, reason: Option<String>| {
        if now > then {
            let mut event = Event::new(name, attachment);
            event.count = Some(now - then);
            event.reason = reason;
            if name == "epoch-broken" {
                event.last_break = last_break.cloned();
            }
            events.push(event);
        }
    };
    if let (Some(then), Some(now)) =
        (&old.attachment.mapping, &attachment.mapping)
    {
        counted(
            "epoch-broken",
            then.epochs_broken,
            now.epochs_broken,
            now.reason.clone(),
        );
        counted("epoch-begun", then.epochs_begun, now.epochs_begun, None);
    }
    counted("error", old.errors, new.errors, Some("ext4".to_owned()));
    if let (Some(then), Some(now)) = (old.failed(), new.failed()) {
        counted("error", then, now, Some("I/O".to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_the_kernel() {
        for (head, ours) in [
            ("change@/devices/virtual/block/loop3", true),
            ("add@/devices/virtual/block/floop0/floop0p1", true),
            ("change@/devices/virtual/block/dm-0", false),
            ("add@/devices/virtual/bdi/7:3", false),
            ("", false),
        ] {
            assert_eq!(is_about_a_device(head.as_bytes()), ours, "{head}");
        }
    }
}
