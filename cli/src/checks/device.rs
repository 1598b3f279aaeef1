// SPDX-License-Identifier: GPL-2.0-only
//! Each attached device: who needs it, and how its I/O goes.

use std::path::Path;

use super::Subject;
use crate::device::{DevId, Device, Driver};
use crate::finding::{Finding, Findings, Severity};
use crate::size::short;
use crate::text::{quoted_shown, shown};
use crate::users::{self, Users};
use crate::{dio, mapping};

/// The module's reason for an image that another process has open.
const OPENED: &str = "someone else has the image open";

/// Its reason for a lease that it can't have.
const NO_LEASE: &str = "the file system grants no lease";
/// Its reason for a map that found no memory.
const NO_MEMORY: &str = "no memory for the map";

/// Its reasons for buffered I/O to an image that may have direct I/O.
const OFF: [&str; 2] = [
    "turned off by LOOP_SET_DIRECT_IO",
    "not asked for, and the parameter direct is asked",
];

/// What to do about a reason that passes.
const WAIT: &str = "wait: it is mapped again once that has changed";

/// Runs all checks of one device.
pub fn check(subject: &Subject, to: &mut Findings) {
    if let Some(finding) = leaked(subject) {
        to.add(finding);
    }
    if let Some(finding) = autoclear(subject) {
        to.add(finding);
    }
    if let Some(finding) = buffered(subject) {
        to.add(finding);
    }
    if let Some(finding) = unmapped(subject, to) {
        to.add(finding);
    }
    nodes(subject.attachment.device, to);
}

/// Whether the caller sees all users.
fn all_seen(users: &Users) -> bool {
    users.processes_not_seen == 0
}

/// A deleted image, whose blocks the device keeps; a device without a user.
fn leaked(subject: &Subject) -> Option<Finding> {
    let attachment = &subject.attachment;
    let node = subject.node();
    let unused = subject.users.is_empty() && all_seen(&subject.users);
    let (image, deleted) = attachment.image();
    let image = shown(image.as_os_str());
    if !deleted {
        let what = format!("is attached to {image}, and nobody uses it");
        return unused.then(|| {
            Finding::new(Severity::Note, "unused", &node, what)
                .mend(format!("floop detach {node}"))
        });
    }
    let most = short(attachment.offset.saturating_add(attachment.size));
    let what = format!(
        "its image {image} was deleted; the device keeps its blocks, up to \
         {most}"
    );
    let finding =
        |severity, what: String| Finding::new(severity, "deleted", &node, what);
    Some(if unused {
        finding(Severity::Warning, format!("{what}, and nobody uses it"))
            .mend(format!("floop detach {node}"))
    } else {
        let who = subject.users.describe();
        let who = if who.is_empty() { "not seen".to_owned() } else { who };
        finding(Severity::Note, format!("{what}. Its users: {who}"))
            .mend(format!("floop detach {node}"))
            .advice("once told to, the last of them detaches it")
    })
}

/// A device that its last user should detach, and that user doesn't go.
fn autoclear(subject: &Subject) -> Option<Finding> {
    let users = &subject.users;
    let is_seen = !(users.mounts.is_empty()
        && users.holders.is_empty()
        && users.swaps.is_empty()
        && users.processes.is_empty());
    if is_seen || !subject.attachment.autoclear {
        return None;
    }
    let finding = |severity, what: &str| {
        Finding::new(severity, "autoclear", subject.node(), what)
    };
    if let Some(mount) = users.mounts_elsewhere.first() {
        let what = format!(
            "its last user should detach it, and that is a mount on {} that \
             only the mount namespace of {} has",
            mount.mount_point,
            mount.process.describe()
        );
        return Some(finding(Severity::Warning, &what).mend(format!(
            "nsenter --target {} --mount umount {}",
            mount.process.pid,
            quoted_shown(&mount.mount_point)
        )));
    }
    let what = "its last user should detach it, and that can't be seen: a \
                lazily unmounted file system, a mount namespace without a \
                process, or the kernel";
    let advice = "no command ends what can't be seen; at the latest, a reboot \
                  does";
    all_seen(users).then(|| finding(Severity::Warning, what).advice(advice))
}

/// Buffered I/O, and why.
fn buffered(subject: &Subject) -> Option<Finding> {
    let attachment = &subject.attachment;
    let why = dio::reason(attachment, subject.identity())?;
    let node = subject.node();
    let finding = Finding::new(
        Severity::Note,
        "buffered",
        &node,
        format!("I/O to its image is buffered: {why}"),
    );
    let can_be = match attachment.driver {
        Driver::InTree => why == dio::NOT_ASKED,
        Driver::Floop | Driver::DropIn => {
            OFF.iter().any(|words| why.starts_with(words))
        }
    };
    Some(if can_be {
        finding.mend(format!("floop set {node} --direct on"))
    } else {
        finding.advice(
            "no command changes that in place: it takes an image on another \
             file system, another offset or another sector size",
        )
    })
}

/// An image that is not mapped, and why.
fn unmapped(subject: &Subject, to: &mut Findings) -> Option<Finding> {
    let mapping = subject.attachment.mapping.as_ref()?;
    let why = mapping.reason.as_ref()?;
    let node = subject.node();
    let finding = |severity, what: String| {
        Finding::new(severity, "unmapped", &node, what)
    };
    let what = format!("is not mapped: {why}");
    if !mapping.wanted {
        return Some(
            finding(Severity::Note, what)
                .mend(format!("floop set {node} --mapping on")),
        );
    }
    let obstacle = mapping.obstacle();
    // What broke the mapping is of interest while it may come back.
    let last = mapping.last_break.as_ref().filter(|_| obstacle.is_none());
    let last = last.map(|last| format!("; last broken {}", last.describe()));
    let last = last.unwrap_or_default();
    if why == OPENED {
        let openers =
            subject.identity().map(users::of_image).unwrap_or_default();
        let who: Vec<String> =
            openers.iter().map(users::Process::describe).collect();
        if who.is_empty() {
            to.skip(format!("who has the image of {node} open"));
            return Some(finding(Severity::Note, what + &last).advice(WAIT));
        }
        let what = format!("{what}: {}{last}", who.join(", "));
        return Some(
            finding(Severity::Note, what)
                .advice("wait for those processes, or end them"),
        );
    }
    let finding = finding(Severity::Note, what + &last);
    Some(match obstacle {
        _ if why == NO_MEMORY => finding
            .mend(format!(
                "floop set {node} --mapping off && floop set {node} \
                 --mapping on"
            ))
            .advice("when there is memory again"),
        Some((words, _)) if words == mapping::BUFFERED => {
            finding.advice("make its I/O direct first")
        }
        Some((_, way_out)) => finding.advice(way_out),
        None if why == NO_LEASE => finding.advice(
            "no command changes that while leases are on; for an image on xfs \
             it takes a kernel with CONFIG_EXPORTFS_BLOCK_OPS",
        ),
        None => finding.advice(WAIT),
    })
}

/// Nodes that are missing, or belong to another device.
fn nodes(device: Device, to: &mut Findings) {
    let partitions = device.partitions();
    let whole = device.id().map(|id| (device.node(), id));
    let all = whole
        .into_iter()
        .chain(partitions.into_iter().map(|part| (part.node, part.id)));
    for (node, id) in all {
        if number_of(&node) == Some(id) {
            continue;
        }
        let name = node.display();
        let what = if node.exists() {
            format!("is not the node of {id}, which the kernel has")
        } else {
            "the kernel has this device, but it has no node".to_owned()
        };
        let mend = format!(
            "rm -f {name} && mknod -m 660 {name} b {} {}",
            id.major, id.minor
        );
        to.add(Finding::new(Severity::Warning, "node", name, what).mend(mend));
    }
}

fn number_of(node: &Path) -> Option<DevId> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};

    let metadata = std::fs::metadata(node).ok()?;
    metadata
        .file_type()
        .is_block_device()
        .then(|| DevId::from_stat(metadata.rdev()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_the_modules() {
        let module = include_str!("../../../kernel/sysfs.c");
        for words in [OPENED, NO_LEASE, NO_MEMORY] {
            assert!(module.contains(&format!("= \"{words}\",")), "{words}");
        }
        let module = include_str!("../../../kernel/direct.c");
        for words in OFF {
            assert!(module.contains(&format!("\"{words}\"")), "{words}");
        }
    }
}
