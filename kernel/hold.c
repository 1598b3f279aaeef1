// SPDX-License-Identifier: GPL-2.0
/*
 * Hold up changes of the image's blocks after a break, while mapped I/O is in
 * flight. Mapped I/O counts as direct I/O to the file, which a change waits for
 * in inode_dio_wait(). XFS_IOC_SWAPEXT doesn't call that (xfs_swap_extents()),
 * but takes the inode's lock and then the invalidate_lock, so on xfs that lock
 * is held as well.
 */
#include <linux/fs.h>
#include <linux/rwsem.h>

#include "guard.h"
#include "image.h"
#include "rules.h"

/**
 * floop_hold_changes() - hold up changes of the image's blocks
 * @guard: the guard, its epoch broken, with mapped I/O in flight
 *
 * Another task may hold the invalidate_lock now. If it changes the file, it was
 * noticed and waits for direct I/O. If it only reads the inode's blocks
 * (xfs_scrub), floop_hold_work() is next in line for the lock.
 *
 * Context: Any but interrupts, with @guard->lock held. Doesn't sleep.
 */
void floop_hold_changes(struct floop_guard *guard)
{
	struct address_space *mapping = guard->mapping;

	lockdep_assert_held(&guard->lock);
	inode_dio_begin(mapping->host);
	guard->dio_held = true;
	if (!guard->exchanges)
		return;
	guard->pages_held = down_read_trylock(&mapping->invalidate_lock);
	/* The end of the last I/O releases it; tell lockdep, as AIO does. */
	if (guard->pages_held)
		rwsem_release(&mapping->invalidate_lock.dep_map, _RET_IP_);
	else
		queue_work(floop_background_wq, &guard->hold_work);
}

/**
 * floop_hold_work() - wait for the invalidate_lock
 * @work: the guard's hold_work
 *
 * Context: Process context. Sleeps.
 */
void floop_hold_work(struct work_struct *work)
{
	struct floop_guard *guard = container_of(work, struct floop_guard,
						 hold_work);
	struct rw_semaphore *lock = &guard->mapping->invalidate_lock;
	bool held;

	floop_window(FLOOP_WINDOW_HOLD);
	down_read(lock);
	spin_lock_irq(&guard->lock);
	held = guard->dio_held && !guard->pages_held;
	if (held) {
		guard->pages_held = true;
		rwsem_release(&lock->dep_map, _RET_IP_);
	}
	spin_unlock_irq(&guard->lock);
	if (!held)
		up_read(lock);
}

/**
 * floop_hold_release() - let changes of the image's blocks go on
 * @guard: the guard; no mapped I/O is in flight
 *
 * Context: Any, interrupts included, with @guard->lock held.
 */
void floop_hold_release(struct floop_guard *guard)
{
	struct address_space *mapping = guard->mapping;

	lockdep_assert_held(&guard->lock);
	if (guard->pages_held)
		up_read_non_owner(&mapping->invalidate_lock);
	if (guard->dio_held)
		inode_dio_end(mapping->host);
	guard->pages_held = false;
	guard->dio_held = false;
}

/**
 * floop_hold_is_partial() - do writers have to wait for the lease?
 * @guard: the guard
 *
 * Context: Any but interrupts.
 * Return: true if the epoch is over, and a chunk is in flight; or mapped I/O
 * may be, and another task had the invalidate_lock; or mapped I/O is, and a
 * write to the file may give up blocks: xfs copies those that are shared, and
 * writes to the copy without waiting for direct I/O.
 */
bool floop_hold_is_partial(struct floop_guard *guard)
{
	struct floop_image *image = container_of(guard, struct floop_image,
						 guard);
	bool partial;

	spin_lock_irq(&guard->lock);
	partial = (guard->state == FLOOP_GUARD_BROKEN &&
		   (guard->ahead || (READ_ONCE(image->fill.shared) &&
				     floop_shared_in_flight(image)))) ||
		  (guard->exchanges && guard->dio_held && !guard->pages_held);
	spin_unlock_irq(&guard->lock);
	return partial;
}
