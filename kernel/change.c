// SPDX-License-Identifier: GPL-2.0
/*
 * Our own changes of the image's blocks: discards and write-zeroes. Mapped I/O
 * pauses for them, and what they change leaves the map. An epoch ends and
 * begins for that, and the end of one takes an RCU grace period, milliseconds.
 *
 * A change of what is a known hole (hole.c) does without: mkfs discards a new
 * image as a whole. Nothing of a hole is in the map. Nothing gets there before
 * the change has ended, and what was looked up before it never does, as
 * floop_guard_in_epoch() says.
 */
#include "change.h"
#include "image.h"
#include "rules.h"

/* Changes come in bursts (fstrim): how long to wait for the next one. */
#define PAUSE_LINGERS	msecs_to_jiffies(50)

/**
 * floop_change_begin() - before we change the image's block mapping
 * @image: the image
 *
 * Stops mapping until floop_change_end(), which has to follow, and waits for
 * mapped I/O in flight.
 *
 * Context: Process context. Sleeps for as long as the disk takes.
 * Return: false if the file may not be changed, because the page cache has
 * pages that are older than the disk's data and can't be dropped.
 */
bool floop_change_begin(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;
	bool paused;

	if (!floop_rule_holds(FLOOP_RULE_CHANGES))
		return true;
	floop_guard_pause(image);
	spin_lock_irq(&guard->lock);
	paused = guard->state == FLOOP_GUARD_PAUSED;
	spin_unlock_irq(&guard->lock);
	return !paused || floop_cache_drop(image);
}

/* Returns false if all is unmapped, for lack of memory to unmap a part. */
static bool unmap(struct floop_image *image, sector_t sector, sector_t nr)
{
	struct floop_map *map = &image->guard.map;

	if (!floop_map_remove(map, sector, nr))
		return false;
	if (!floop_shared_remove(image, sector, nr))
		return true;
	floop_map_clear(map);
	return false;
}

static void end(struct floop_guard *guard)
{
	lockdep_assert_held(&guard->lock);
	if (!--guard->changes && guard->state == FLOOP_GUARD_PAUSED)
		mod_delayed_work(floop_background_wq, &guard->resume_work,
				 PAUSE_LINGERS);
}

/**
 * floop_change_end() - after we have changed the image's block mapping
 * @image: the image
 * @sector: the first changed sector of the image's file
 * @nr: the number of changed sectors
 *
 * Context: Process context. May sleep.
 */
void floop_change_end(struct floop_image *image, sector_t sector, sector_t nr)
{
	struct floop_guard *guard = &image->guard;
	sector_t block = i_blocksize(file_inode(image->file)) >> SECTOR_SHIFT;
	sector_t last = round_up(sector + nr, block);

	if (!floop_rule_holds(FLOOP_RULE_CHANGES))
		return;
	/* The file system moves all of a block, though it zeroes a part. */
	sector = round_down(sector, block);
	nr = last - sector;
	mutex_lock(&guard->map.lock);
	if (unmap(image, sector, nr))
		floop_fill_discarded(image, sector, nr);
	else
		floop_fill_restart(image);
	mutex_unlock(&guard->map.lock);

	spin_lock_irq(&guard->lock);
	guard->unsettled = true;
	end(guard);
	spin_unlock_irq(&guard->lock);
}

/**
 * floop_change_hole_begin() - before we change what may be a known hole
 * @image: the image
 * @sector: the first sector of its file
 * @nr: the number of sectors, not 0
 *
 * Context: Process context. May sleep.
 * Return: true if it is one, and mapped I/O goes on: floop_change_hole_end()
 * has to follow; false: call floop_change_begin().
 */
bool floop_change_hole_begin(struct floop_image *image, sector_t sector,
			     sector_t nr)
{
	struct floop_guard *guard = &image->guard;
	sector_t block = i_blocksize(file_inode(image->file)) >> SECTOR_SHIFT;
	bool hole;

	if (!floop_rule_holds(FLOOP_RULE_CHANGES) ||
	    !IS_ALIGNED(sector | nr, block))
		return false;
	/* Who adds to the map, or clears it, has the lock. */
	mutex_lock(&guard->map.lock);
	hole = floop_holes_have(image, sector, nr);
	spin_lock_irq(&guard->lock);
	hole &= guard->state == FLOOP_GUARD_MAPPED &&
		!READ_ONCE(image->fill.shared);
	if (hole) {
		guard->changes++;
		/* What has been looked up before is of another epoch. */
		guard->epoch++;
	}
	spin_unlock_irq(&guard->lock);
	mutex_unlock(&guard->map.lock);
	return hole;
}

/**
 * floop_change_hole_end() - after we have changed a known hole
 * @image: the image
 * @sector: its first sector in the image's file
 * @nr: the number of sectors
 *
 * Context: Process context. May sleep.
 */
void floop_change_hole_end(struct floop_image *image, sector_t sector,
			   sector_t nr)
{
	struct floop_guard *guard = &image->guard;

	mutex_lock(&guard->map.lock);
	floop_fill_discarded(image, sector, nr);
	mutex_unlock(&guard->map.lock);

	spin_lock_irq(&guard->lock);
	if (guard->state != FLOOP_GUARD_MAPPED)
		guard->unsettled = true;
	end(guard);
	spin_unlock_irq(&guard->lock);
	/* What was not added then is looked up again. */
	floop_fill_wrote(image, sector, nr, true);
}
