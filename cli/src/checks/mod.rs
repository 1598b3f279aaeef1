// SPDX-License-Identifier: GPL-2.0-only
//! The checks of `doctor`. They change nothing, and open no image: another
//! opener ends its mapping.

pub mod device;
pub mod images;
pub mod machine;
pub mod modules;
pub mod partitions;

use crate::device::Attachment;
use crate::image::Identity;
use crate::ioctl::Info;
use crate::report;
use crate::users::Users;

/// A device, with what all checks need to know about it.
pub struct Subject {
    /// What is attached to it.
    pub attachment: Attachment,
    /// The driver's status, if the caller may get it.
    pub status: Option<Info>,
    /// Its users.
    pub users: Users,
}

impl Subject {
    /// From an attachment and its users.
    pub fn new(attachment: Attachment, users: Users) -> Self {
        let status = report::status(&attachment);
        Self { attachment, status, users }
    }

    /// Its node, as text.
    pub fn node(&self) -> String {
        self.attachment.device.node().display().to_string()
    }

    /// Which file its image is.
    pub fn identity(&self) -> Option<Identity> {
        self.status.as_ref().map(Identity::of_attached)
    }

    /// The image's metadata, if its name still names it.
    pub fn metadata(&self) -> Option<std::fs::Metadata> {
        let (path, deleted) = self.attachment.image();
        if deleted {
            return None;
        }
        let metadata = std::fs::metadata(path).ok()?;
        let same = self
            .identity()
            .is_none_or(|identity| identity == Identity::of(&metadata));
        same.then_some(metadata)
    }

    /// The bytes of the image that the device shows.
    fn range(&self) -> (u64, u64) {
        let start = self.attachment.offset;
        (start, start.saturating_add(self.attachment.size))
    }

    /// Whether it shows a part of the image that the other one shows, too.
    pub fn overlaps(&self, other: &Self) -> bool {
        let (a, b) = (self.range(), other.range());
        a.0 < b.1 && b.0 < a.1
    }
}
