// SPDX-License-Identifier: GPL-2.0-only
//! The images together: who shares one, and whether there is space for them.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::fs::statvfs;

use super::Subject;
use crate::finding::{Finding, Findings, Severity};
use crate::size::short;
use crate::text::{quoted, shown};

/// Runs all checks of the images. `wanted` says which devices are asked about.
pub fn check(
    all: &[Subject],
    wanted: impl Fn(&Subject) -> bool,
    to: &mut Findings,
) {
    shared(all, &wanted, to);
    space(all, &wanted, to);
    for subject in all.iter().filter(|subject| wanted(subject)) {
        if let Some(finding) = holes(subject) {
            to.add(finding);
        }
    }
}

/// One image on two writable devices: two page caches, and file systems that
/// don't know of each other.
fn shared(
    all: &[Subject],
    wanted: &impl Fn(&Subject) -> bool,
    to: &mut Findings,
) {
    let same = |one: &Subject, other: &Subject| match (
        one.identity(),
        other.identity(),
    ) {
        (Some(a), Some(b)) => a == b,
        _ => one.attachment.backing_file == other.attachment.backing_file,
    };
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
        to.add(
            Finding::new(severity, "space", name, what)
                .mend("free space there, or fstrim what is on the devices"),
        );
    }
}

/// An image that is mostly allocated but has holes: one that was allocated as a
/// whole, probably, and lost blocks to discards.
fn holes(subject: &Subject) -> Option<Finding> {
    let (size, has) = allocation(subject)?;
    let missing = size.checked_sub(has)?;
    if subject.attachment.read_only || has < size / 2 || missing < 65536 {
        return None;
    }
    let image = shown(subject.attachment.image().0.as_os_str());
    let what = format!(
        "{} of {} of its image {image} are holes. If it was allocated as a \
         whole, discards punched them",
        short(missing),
        short(size)
    );
    Some(Finding::new(Severity::Note, "holes", subject.node(), what).mend(
        format!(
            "fallocate --length {size} {}",
            quoted(subject.attachment.image().0.as_os_str())
        ),
    ))
}
