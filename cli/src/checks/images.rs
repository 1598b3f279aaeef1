// SPDX-License-Identifier: GPL-2.0-only
//! The images together: who shares one, and whether there is space for them.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::fs::statvfs;

use super::Subject;
use crate::cli::Discard;
use crate::device::Driver;
use crate::discard;
use crate::finding::{Finding, Findings, Severity};
use crate::size::short;
use crate::text::{quoted, quoted_shown, shown};

/// Runs all checks of the images. `wanted` says which devices are asked about.
pub fn check(
    all: &[Subject],
    wanted: impl Fn(&Subject) -> bool,
    to: &mut Findings,
) {
    shared(all, &wanted, to);
    space(all, &wanted, to);
    for subject in all.iter().filter(|subject| wanted(subject)) {
        if let Some(finding) = holes(subject, all) {
            to.add(finding);
        }
    }
}

/// Whether two devices show the same image.
fn same(one: &Subject, other: &Subject) -> bool {
    match (one.identity(), other.identity()) {
        (Some(a), Some(b)) => a == b,
        _ => one.attachment.backing_file == other.attachment.backing_file,
    }
}

/// One image on two writable devices: two page caches, and file systems that
/// don't know of each other.
fn shared(
    all: &[Subject],
    wanted: &impl Fn(&Subject) -> bool,
    to: &mut Findings,
) {
    let writable: Vec<&Subject> =
        all.iter().filter(|subject| !subject.attachment.read_only).collect();
    // One finding for all devices of an image.
    let mut told: Vec<&Subject> = Vec::new();
    for one in &writable {
        if told.iter().any(|other| same(one, other)) {
            continue;
        }
        let devices: Vec<&Subject> = writable
            .iter()
            .copied()
            .filter(|device| same(one, device))
            .filter(|device| {
                writable.iter().any(|other| {
                    device.attachment.device != other.attachment.device
                        && same(device, other)
                        && device.overlaps(other)
                })
            })
            .collect();
        told.push(one);
        let Some(last) = devices.last() else { continue };
        if !devices.iter().any(|device| wanted(device)) {
            continue;
        }
        let nodes: Vec<String> = devices.iter().map(|d| d.node()).collect();
        let image = shown(one.attachment.image().0.as_os_str());
        let what = format!(
            "it is attached to {}, all writable: writes through one destroy \
             what another has cached",
            nodes.join(", ")
        );
        to.add(
            Finding::new(Severity::Error, "shared", image, what)
                .mend(format!("floop detach {}", last.node())),
        );
    }
}

/// An image's size, and the bytes that are allocated for it.
fn allocation(subject: &Subject) -> Option<(u64, u64)> {
    let metadata = subject.metadata()?;
    metadata
        .is_file()
        .then(|| (metadata.size(), metadata.blocks().saturating_mul(512)))
}

/// The images of one file system.
#[derive(Default)]
struct Pool {
    images: BTreeMap<u64, u64>,
    path: PathBuf,
    /// Where what is on the devices is mounted, for a shell.
    mounts: BTreeSet<String>,
    wanted: bool,
}

/// Sparse images that can grow by more than the file system below has.
fn space(
    all: &[Subject],
    wanted: &impl Fn(&Subject) -> bool,
    to: &mut Findings,
) {
    let mut pools: BTreeMap<u64, Pool> = BTreeMap::new();
    for subject in all {
        if subject.attachment.read_only {
            continue;
        }
        let (Some(metadata), Some((size, has))) =
            (subject.metadata(), allocation(subject))
        else {
            continue;
        };
        let pool = pools.entry(metadata.dev()).or_default();
        pool.images.insert(metadata.ino(), size.saturating_sub(has));
        subject.attachment.image().0.clone_into(&mut pool.path);
        pool.wanted |= wanted(subject);
        if discard::of(subject.attachment.device) == Discard::Pass {
            let mounts = subject.users.mounts.iter();
            pool.mounts.extend(mounts.map(|at| quoted_shown(at)));
        }
    }
    for pool in pools.into_values().filter(|pool| pool.wanted) {
        let Ok(below) = statvfs(&pool.path) else { continue };
        let free = below.f_bavail.saturating_mul(below.f_frsize);
        let grows: u64 = pool.images.values().sum();
        if grows <= free {
            continue;
        }
        let name = pool.path.parent().unwrap_or(&pool.path);
        let name = shown(name.as_os_str());
        let number = pool.images.values().filter(|more| **more > 0).count();
        let image = if number == 1 { "image" } else { "images" };
        let what = format!(
            "{number} sparse {image} there may grow by {}, and the file system \
             has {} left: writes to full devices fail",
            short(grows),
            short(free)
        );
        let severity =
            if free == 0 { Severity::Error } else { Severity::Warning };
        let finding = Finding::new(severity, "space", name, what)
            .advice("make room there, or discard what is free on the devices");
        // What is mounted frees blocks of its image.
        let trims: Vec<String> =
            pool.mounts.iter().map(|at| format!("fstrim {at}")).collect();
        to.add(if trims.is_empty() {
            finding
        } else {
            finding.mend(trims.join("; "))
        });
    }
}

/// An image that is mostly allocated but has holes: one that was allocated as a
/// whole, probably, and lost blocks to discards.
///
/// fallocate would make unwritten blocks of them, which can't be mapped. To
/// write each block as it is makes written ones, and is safe while nobody else
/// writes. Nothing is said of a device that keeps its discards and is in use:
/// its holes get fewer as it is written to, and nothing else can be done.
fn holes(subject: &Subject, all: &[Subject]) -> Option<Finding> {
    let (size, has) = allocation(subject)?;
    let missing = size.checked_sub(has)?;
    if subject.attachment.read_only || has < size / 2 || missing < 65536 {
        return None;
    }
    let attachment = &subject.attachment;
    let node = subject.node();
    let name = attachment.image().0.as_os_str();
    let what = format!(
        "{} of {} of its image {} are holes. If it was allocated as a whole, \
         discards punched them",
        short(missing),
        short(size),
        shown(name)
    );
    let finding = Finding::new(Severity::Note, "holes", &node, what);
    let unused = all.iter().filter(|other| same(subject, other)).all(|other| {
        other.users.is_empty() && other.users.processes_not_seen == 0
    });
    let keeps = discard::of(attachment.device) == Discard::Keep;
    let keep = (attachment.driver != Driver::InTree && !keeps)
        .then(|| format!("floop set {node} --discard keep"));
    let fill = unused.then(|| {
        let name = quoted(name);
        format!("dd if={name} of={name} bs=1M conv=notrunc,fsync")
    });
    let fills = "while nobody uses the device, dd writes each block as it is";
    match (keep, fill) {
        (Some(keep), Some(fill)) => {
            Some(finding.mend(format!("{keep} && {fill}")).advice(fills))
        }
        (None, Some(fill)) => Some(finding.mend(fill).advice(fills)),
        (Some(keep), None) => Some(finding.mend(keep).advice(
            "with discards kept, there will be no more; no command fills the \
             holes of a device in use",
        )),
        (None, None) if keeps => None,
        (None, None) => Some(finding.advice(
            "no command fills the holes of a device in use, and the in-tree \
             driver can't keep what is discarded",
        )),
    }
}
