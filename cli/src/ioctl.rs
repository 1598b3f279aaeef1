// SPDX-License-Identifier: GPL-2.0-only
//! The ioctl interface of both drivers, `<linux/loop.h>`.
//!
//! All unsafe code of the command is here.

use std::ffi::{c_int, c_void};
use std::os::fd::AsFd;
use std::ptr;

use linux_raw_sys::loop_device as uapi;
use rustix::io::Result;
use rustix::ioctl::{
    Getter, Ioctl, IoctlOutput, NoArg, Opcode, Setter, ioctl, opcode,
};
use rustix::mm::{MapFlags, ProtFlags, mmap};

pub use uapi::{loop_config as Config, loop_info64 as Info};

/// The device is read-only.
pub const READ_ONLY: u32 = 1;
/// The last close detaches the device.
pub const AUTOCLEAR: u32 = 4;
/// The kernel scans for partitions.
pub const PARTSCAN: u32 = 8;
/// I/O to the image is direct.
pub const DIRECT_IO: u32 = 16;

/// An ioctl that takes an integer and returns one.
struct Number {
    opcode: Opcode,
    argument: usize,
}

// SAFETY: the opcodes used with it take an integer in place of a pointer,
// access no memory of ours, and return an integer.
unsafe impl Ioctl for Number {
    type Output = c_int;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        self.opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        ptr::without_provenance_mut(self.argument)
    }

    unsafe fn output_from_ptr(
        output: IoctlOutput,
        _: *mut c_void,
    ) -> Result<c_int> {
        Ok(output)
    }
}

/// A device number from the control node, which is never negative.
fn index(answer: c_int) -> u32 {
    u32::try_from(answer).unwrap_or_default()
}

/// `LOOP_CTL_GET_FREE`: finds a free device, or adds one.
pub fn get_free(control: impl AsFd) -> Result<u32> {
    // SAFETY: `LOOP_CTL_GET_FREE` ignores its argument.
    unsafe {
        ioctl(control, Number { opcode: uapi::LOOP_CTL_GET_FREE, argument: 0 })
    }
    .map(index)
}

/// `LOOP_CTL_ADD`: adds a device with any free number.
pub fn add_any(control: impl AsFd) -> Result<u32> {
    // SAFETY: `LOOP_CTL_ADD` takes an integer; a negative one means any number.
    unsafe {
        ioctl(
            control,
            Number { opcode: uapi::LOOP_CTL_ADD, argument: usize::MAX },
        )
    }
    .map(index)
}

/// `LOOP_CTL_ADD`: adds the device with this number.
pub fn add(control: impl AsFd, number: u32) -> Result<()> {
    let argument = usize::try_from(number).unwrap_or(usize::MAX);
    // SAFETY: `LOOP_CTL_ADD` takes an integer.
    unsafe { ioctl(control, Number { opcode: uapi::LOOP_CTL_ADD, argument }) }
        .map(drop)
}

/// `LOOP_CTL_REMOVE`: removes a device that nobody uses.
pub fn remove(control: impl AsFd, number: u32) -> Result<()> {
    let argument = usize::try_from(number).unwrap_or(usize::MAX);
    let call = Number { opcode: uapi::LOOP_CTL_REMOVE, argument };
    // SAFETY: `LOOP_CTL_REMOVE` takes an integer.
    unsafe { ioctl(control, call) }.map(drop)
}

/// `FLOOP_CTL_HELP`: lends our memory to the module, which has file systems
/// write to it. Returns when it isn't needed any more.
pub fn help(control: impl AsFd) -> Result<()> {
    const FLOOP_CTL_HELP: Opcode = opcode::none(b'L', 0x8f);
    const BYTES: usize = 65536;
    let control = control.as_fd();
    // SAFETY: a new mapping, of a buffer that the module keeps for it.
    let buffer = unsafe {
        mmap(
            ptr::null_mut(),
            BYTES,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            control,
            0,
        )
    }?;
    let call = Number { opcode: FLOOP_CTL_HELP, argument: buffer.addr() };
    // SAFETY: `FLOOP_CTL_HELP` has memory written to in the mapping only, to
    // which nothing else refers.
    unsafe { ioctl(control, call) }.map(drop)
}

/// `LOOP_CONFIGURE`: attaches an image with all its settings in one step.
pub fn configure(device: impl AsFd, config: &Config) -> Result<()> {
    // SAFETY: `LOOP_CONFIGURE` reads a `loop_config`.
    unsafe {
        ioctl(device, Setter::<{ uapi::LOOP_CONFIGURE }, Config>::new(*config))
    }
}

/// `LOOP_GET_STATUS64`: gets the status of an attached device.
pub fn status(device: impl AsFd) -> Result<Info> {
    // SAFETY: `LOOP_GET_STATUS64` fills in a `loop_info64`, where all bit
    // patterns are valid.
    unsafe { ioctl(device, Getter::<{ uapi::LOOP_GET_STATUS64 }, Info>::new()) }
}

/// `LOOP_CLR_FD`: detaches, now or when the last user closes the device.
pub fn clear(device: impl AsFd) -> Result<()> {
    // SAFETY: `LOOP_CLR_FD` takes no argument.
    unsafe { ioctl(device, NoArg::<{ uapi::LOOP_CLR_FD }>::new()) }
}

/// `LOOP_SET_CAPACITY`: makes the device as large as its image.
pub fn set_capacity(device: impl AsFd) -> Result<()> {
    // SAFETY: `LOOP_SET_CAPACITY` takes no argument.
    unsafe { ioctl(device, NoArg::<{ uapi::LOOP_SET_CAPACITY }>::new()) }
}

/// `LOOP_SET_DIRECT_IO`: turns direct I/O on or off.
pub fn set_direct(device: impl AsFd, on: bool) -> Result<()> {
    let call =
        Number { opcode: uapi::LOOP_SET_DIRECT_IO, argument: usize::from(on) };
    // SAFETY: `LOOP_SET_DIRECT_IO` takes an integer.
    unsafe { ioctl(device, call) }.map(drop)
}

/// `BLKROSET`: makes any block device read-only, or writable. The kernel keeps
/// that when a loop device is detached.
pub fn set_read_only(device: impl AsFd, on: bool) -> Result<()> {
    const BLKROSET: Opcode = opcode::none(0x12, 93);
    // SAFETY: `BLKROSET` reads an int.
    unsafe { ioctl(device, Setter::<BLKROSET, c_int>::new(on.into())) }
}

/// The name in the driver's status: that of the image, or --loop-ref.
pub fn file_name(info: &Info) -> &[u8] {
    let name = &info.lo_file_name;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    name.get(..end).unwrap_or_default()
}

/// `LOOP_SET_BLOCK_SIZE`: changes the logical block size.
pub fn set_block_size(device: impl AsFd, size: u32) -> Result<()> {
    let argument = usize::try_from(size).unwrap_or_default();
    let call = Number { opcode: uapi::LOOP_SET_BLOCK_SIZE, argument };
    // SAFETY: `LOOP_SET_BLOCK_SIZE` takes an integer.
    unsafe { ioctl(device, call) }.map(drop)
}

/// A `loop_config` of zeros.
pub fn empty_config() -> Config {
    Config {
        fd: 0,
        block_size: 0,
        info: Info {
            lo_device: 0,
            lo_inode: 0,
            lo_rdevice: 0,
            lo_offset: 0,
            lo_sizelimit: 0,
            lo_number: 0,
            lo_encrypt_type: 0,
            lo_encrypt_key_size: 0,
            lo_flags: 0,
            lo_file_name: [0; 64],
            lo_crypt_name: [0; 64],
            lo_encrypt_key: [0; 32],
            lo_init: [0; 2],
        },
        __reserved: [0; 8],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_kernels_size() {
        assert_eq!(size_of::<Info>(), 232);
        assert_eq!(size_of::<Config>(), 304);
    }
}
