// SPDX-License-Identifier: GPL-2.0-only
//! `floop status`.

use crate::error::Result;
use crate::report::Details;
use crate::{cli, output, target};

/// Shows one device.
pub fn run(args: &cli::Status) -> Result<()> {
    let device = target::device(&args.device)?;
    let attachment = device
        .attachment()
        .ok_or_else(|| target::not_attached(&args.device))?;
    let details = Details::of(&attachment, None).with_shared();
    if args.json {
        output::print_json(&details)
    } else {
        output::print(&details.lines())
    }
}
