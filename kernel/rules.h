/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The guard's rules. A debug build (FLOOP_DEBUG=1) can be told to break each of
 * them, to show that a test notices. Otherwise they hold, and cost nothing.
 */
#ifndef FLOOP_RULES_H
#define FLOOP_RULES_H

#include <linux/bits.h>
#include <linux/compiler.h>

/**
 * enum floop_rule - what the guard never fails to do
 * @FLOOP_RULE_LEASE: nothing is mapped without a lease
 * @FLOOP_RULE_BREAK: a break of the lease ends the epoch
 * @FLOOP_RULE_DRAIN: after a break, changes wait for mapped I/O in flight
 * @FLOOP_RULE_CLEAR: no part of the map outlives its epoch
 * @FLOOP_RULE_EPOCH: lookups go into the map in the same epoch only
 * @FLOOP_RULE_DURABLE: only durable blocks are mapped
 * @FLOOP_RULE_CHANGES: our own changes wait for mapped I/O, and unmap
 * @FLOOP_RULE_FREEZE: a mapped write keeps the file system from being frozen
 * @FLOOP_RULE_CACHE: the page cache keeps no page that mapped I/O has bypassed
 * @FLOOP_RULE_LAYOUT: a change of blocks on xfs breaks the lease
 * @FLOOP_RULE_FLUSH: a flush makes writes through the file system durable, too
 * @FLOOP_RULE_NOTICE: the lease notices every opener
 * @FLOOP_RULE_ATOMIC: a change of blocks that doesn't wait for direct I/O waits
 *	for the lease
 * @FLOOP_RULE_FLAGS: inode flags that are set later end the mapping
 * @FLOOP_RULE_HOLES: a write takes its range out of the known holes
 * @FLOOP_RULE_SHARED: of a file that shares blocks, mapped I/O goes to no block
 *	that a write through the file system has moved, or is moving
 */
enum floop_rule {
	FLOOP_RULE_LEASE,
	FLOOP_RULE_BREAK,
	FLOOP_RULE_DRAIN,
	FLOOP_RULE_CLEAR,
	FLOOP_RULE_EPOCH,
	FLOOP_RULE_DURABLE,
	FLOOP_RULE_CHANGES,
	FLOOP_RULE_FREEZE,
	FLOOP_RULE_CACHE,
	FLOOP_RULE_LAYOUT,
	FLOOP_RULE_FLUSH,
	FLOOP_RULE_NOTICE,
	FLOOP_RULE_ATOMIC,
	FLOOP_RULE_FLAGS,
	FLOOP_RULE_HOLES,
	FLOOP_RULE_SHARED,
};

/**
 * enum floop_window - places where a debug build can be told to wait, to make a
 * rare race certain: for window_ms, or until it is told otherwise
 * @FLOOP_WINDOW_RESUME: an epoch is about to be resumed
 * @FLOOP_WINDOW_END: a mapped bio is about to end, in a work
 * @FLOOP_WINDOW_REMAP: mapping is being set anew, and is off for now
 * @FLOOP_WINDOW_GROW: the device has grown, its map hasn't
 * @FLOOP_WINDOW_BEGIN: the lease is taken, openers are not counted yet
 * @FLOOP_WINDOW_FILL: blocks have been looked up, and are not in the map yet
 * @FLOOP_WINDOW_DRAIN: mapped I/O has ended, the lease is still held
 * @FLOOP_WINDOW_SUBMIT: a bio is mapped, but not submitted to the disk yet
 * @FLOOP_WINDOW_CHANGE: mapped I/O has ended for a change of our own, which is
 *	still to come
 * @FLOOP_WINDOW_BOUNCE: no wait: all memory is treated as unaligned
 * @FLOOP_WINDOW_HOLD: another task had the invalidate_lock at the break, and
 *	floop_hold_work() doesn't wait for it yet
 * @FLOOP_WINDOW_SHORT: no wait: the file system is asked for a block at a time,
 *	as if its I/O was short
 * @FLOOP_WINDOW_PASSES: no wait: a worker leaves its lane after every pass
 * @FLOOP_WINDOW_STOP: the guard is about to be off, its lease is dropped
 * @FLOOP_WINDOW_LAYOUTS: no wait: the kernel is treated as one without
 *	CONFIG_EXPORTFS_BLOCK_OPS
 * @FLOOP_WINDOW_MERGE: no wait: there is no memory to merge writes
 * @FLOOP_WINDOW_LOOKS: no wait: a batch of the fill asks a thousand questions
 * @FLOOP_WINDOW_UNSHARE: xfs is about to see whether the file shares blocks;
 *	the inode's lock was free just now
 * @FLOOP_WINDOW_WRITE: a write is about to go to the file system
 * @FLOOP_WINDOW_CHUNK: a chunk is written, and not in the map yet
 * @FLOOP_WINDOW_FIND: a sector has been looked up in the map, which may change
 */
enum floop_window {
	FLOOP_WINDOW_RESUME,
	FLOOP_WINDOW_END,
	FLOOP_WINDOW_REMAP,
	FLOOP_WINDOW_GROW,
	FLOOP_WINDOW_BEGIN,
	FLOOP_WINDOW_FILL,
	FLOOP_WINDOW_DRAIN,
	FLOOP_WINDOW_SUBMIT,
	FLOOP_WINDOW_CHANGE,
	FLOOP_WINDOW_BOUNCE,
	FLOOP_WINDOW_HOLD,
	FLOOP_WINDOW_SHORT,
	FLOOP_WINDOW_PASSES,
	FLOOP_WINDOW_STOP,
	FLOOP_WINDOW_LAYOUTS,
	FLOOP_WINDOW_MERGE,
	FLOOP_WINDOW_LOOKS,
	FLOOP_WINDOW_UNSHARE,
	FLOOP_WINDOW_WRITE,
	FLOOP_WINDOW_CHUNK,
	FLOOP_WINDOW_FIND,
};

#ifdef FLOOP_DEBUG
extern unsigned long floop_rules_broken;

static inline bool floop_rule_holds(enum floop_rule rule)
{
	return !(READ_ONCE(floop_rules_broken) & BIT(rule));
}

bool floop_window_is_open(enum floop_window window);
void floop_window(enum floop_window window);
#else
static inline bool floop_rule_holds(enum floop_rule rule)
{
	return true;
}

static inline bool floop_window_is_open(enum floop_window window)
{
	return false;
}

static inline void floop_window(enum floop_window window)
{
}
#endif

#endif /* FLOOP_RULES_H */
