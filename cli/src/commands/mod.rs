// SPDX-License-Identifier: GPL-2.0-only
//! The subcommands, one file each. None of them imports another.

pub mod attach;
pub mod create;
pub mod detach;
pub mod doctor;
pub mod hold;
pub mod list;
pub mod resize;
pub mod set;
pub mod status;
pub mod table;
pub mod top;
pub mod watch;
