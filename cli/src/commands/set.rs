// SPDX-License-Identifier: GPL-2.0-only
//! `floop set`.

use crate::cli::{self, Switch};
use crate::device::Driver;
use crate::error::{Error, Exit, Result};
use crate::report::Details;
use crate::{mapping, output, target};

/// Changes a device in use. A failure leaves the device as it was.
pub fn run(args: &cli::Set) -> Result<()> {
    let device = target::device(&args.device)?;
    let find = || {
        device.attachment().ok_or_else(|| target::not_attached(&args.device))
    };
    let mut attachment = find()?;
    match (args.mapping, attachment.driver) {
        (Switch::Off, Driver::InTree) => {}
        (Switch::On, Driver::InTree) => {
            let cause = "can't be mapped: the in-tree loop driver serves it, \
                         and only floop maps";
            return Err(Error::new(Exit::Unsuitable, &args.device, cause)
                .hint("detach it, and attach its image with --driver floop"));
        }
        (Switch::Off, _) => {
            // A module without mapping has nothing to turn off.
            if attachment.mapping.as_ref().is_some_and(|mapping| mapping.wanted)
            {
                mapping::switch(device, false)?;
            }
            attachment = find()?;
        }
        (Switch::On, _) => {
            let was_on = attachment
                .mapping
                .as_ref()
                .is_some_and(|mapping| mapping.wanted);
            if !was_on {
                mapping::switch(device, true)?;
            }
            attachment = mapping::wait_for(device, &args.device, None)
                .inspect_err(|_| {
                    if !was_on {
                        // The caller gets the first error.
                        let _ = mapping::switch(device, false);
                    }
                })?;
        }
    }
    if args.json {
        output::print_json(&Details::of(&attachment, None))
    } else {
        Ok(())
    }
}
