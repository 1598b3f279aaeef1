// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's partitions against the partition table.

use std::fs::File;

use super::Subject;
use crate::device::{Device, Partition};
use crate::finding::{Finding, Findings, Severity};
use crate::table::{self, Entry};

/// Compares the partitions of an attached device.
pub fn check(subject: &Subject, to: &mut Findings) {
    let attachment = &subject.attachment;
    let node = subject.node();
    let partitions = attachment.device.partitions();
    let Ok(open) = File::open(attachment.device.node()) else {
        to.skip("the partition tables; run it as root (sudo)");
        return;
    };
    let table = table::read(&open, attachment.sector_size);
    if let Some(finding) = compare(
        &node,
        attachment.partscan,
        &partitions,
        table.unwrap_or_default().as_slice(),
    ) {
        to.add(finding);
    }
}

fn compare(
    node: &str,
    partscan: bool,
    partitions: &[Partition],
    table: &[Entry],
) -> Option<Finding> {
    let finding = |severity, what: String| {
        Finding::new(severity, "partitions", node, what)
    };
    if partitions.is_empty() {
        if table.is_empty() {
            return None;
        }
        let what = "has a partition table, and no partitions".to_owned();
        // Without a scan that is how it was attached.
        let severity =
            if partscan { Severity::Warning } else { Severity::Note };
        return Some(
            finding(severity, what).mend(format!("partx --add {node}")),
        );
    }
    // Logical partitions of a DOS table are not read.
    let is_entry = |partition: &&Partition| {
        table.iter().any(|entry| {
            (entry.number, entry.start, entry.size)
                == (partition.number, partition.start, partition.size)
        })
    };
    let known = |partition: &&Partition| {
        is_entry(partition) || logical(partition, table)
    };
    let stale: Vec<String> = partitions
        .iter()
        .filter(|partition| !known(partition))
        .map(|partition| partition.number.to_string())
        .collect();
    let missing = table
        .iter()
        .any(|entry| partitions.iter().all(|p| p.number != entry.number));
    if !stale.is_empty() {
        let what = format!(
            "its partitions are not those of its partition table: {}",
            stale.join(", ")
        );
        let mend = if table.is_empty() {
            format!("partx --delete {node}")
        } else {
            format!("partx --update {node}")
        };
        return Some(finding(Severity::Warning, what).mend(mend));
    }
    missing.then(|| {
        let what = "has fewer partitions than its partition table".to_owned();
        finding(Severity::Warning, what).mend(format!("partx --update {node}"))
    })
}

/// A logical partition of a DOS table, which can't be judged.
fn logical(partition: &Partition, table: &[Entry]) -> bool {
    partition.number > 4
        && !table.is_empty()
        && table.iter().all(|entry| entry.number <= 4)
}

/// Partitions of devices that nothing is attached to: some kernels leave them.
pub fn leftover(device: Device, to: &mut Findings) {
    if device.is_attached() || device.partitions().is_empty() {
        return;
    }
    let node = device.node().display().to_string();
    let what = "nothing is attached to it, but it has partitions of an image \
                that was";
    to.add(
        Finding::new(Severity::Warning, "partitions", &node, what)
            .mend(format!("partx --delete {node}")),
    );
}
