// SPDX-License-Identifier: GPL-2.0-only
//! The program: see `lib.rs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    floop::main()
}
