/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The guard's protocol (kernel/guard.c, hold.c, lease.c, cache.c, remap.c,
 * fill.c, discard.c, attach.c) as a model for spin. States, locks and the order
 * of steps are the code's; each process names the function that it stands for.
 * check.py runs it.
 *
 * A section under a spinlock (guard->lock, flc_lock) is one step. Whatever the
 * code does after it has dropped the lock is another step: to act on what it
 * has seen, to wait, to look again.
 *
 * What must hold, however the steps interleave:
 *  - The block never moves while mapped I/O to it is in flight, and no I/O goes
 *    to where the block was before: change(), io().
 *  - Mapped I/O goes to a written and durable block only, and not to a file
 *    whose flags forbade it before the I/O began: io().
 *  - No mapped write is in flight while the file system is frozen: freezer().
 *  - When a mapped write ends, no page of the page cache is older: io().
 *  - An epoch has a lease, and the state changes as guard_enter() allows:
 *    guard_begin_epoch(), enter().
 *  - Nothing touches the image once it is freed: touch(). Nobody uses
 *    dev->image when it is NULL: store().
 *  - Everything ends: each I/O, open, change, freeze, stop and close. Then no
 *    dio count is left, and the image is mapped again, or stopped: quiet().
 *
 * What the model leaves out:
 *  - All blocks but one. A map is EMPTY, TRUE or STALE, so to remove a range is
 *    to clear the map. Bios are not split; a chained bio is one that ends after
 *    another one (OLD_CHAIN).
 *  - Time. Delayed work runs at any time after it is queued. An attempt to get
 *    the lease begins only while no counted opener has the image open, and not
 *    once its flags forbid mapping, as the attempts would go on for ever. (The
 *    image may be opened between that and the attempt.)
 *  - Memory order. percpu_ref_tryget_live() is one step. The reference that
 *    percpu_ref_kill() drops goes after a grace period.
 *  - The number of an epoch. same_epoch says whether it is still the one in
 *    which the fill looked.
 *  - The probe of the lease (notices_openers()), leases of others, the time-out
 *    of a lease, signals, and LOCK_TRIES: the inode's lock is tried once. Each
 *    task that was told to wait for the lease is known for good: in the code
 *    two may share a bit of guard->told, and TOLD_LASTS ends it.
 *  - A task that only reads under the invalidate_lock at a break
 *    (floop_hold_work()), and a break by the driver itself
 *    (floop_direct_give_up()).
 *  - A page is inserted and read in one step, and is clean. What our own change
 *    leaves dirty in the page cache, and two writers of one block, are left
 *    out. A write-back or an invalidation fails where prepare_epoch() and
 *    floop_cache_drop() call it, -DFAILS times; elsewhere it succeeds.
 *  - Reads of a device that is written to (a write's steps without the freeze
 *    protection), read-only file systems, other errors, failing allocations,
 *    memory reserves, which worker runs what, blocks of a disk as the image,
 *    flushes (FLOOP_RULE_FLUSH), times, the bitmap's size, and crashes: durable
 *    is what an fsync came after.
 *
 * -DNO_x breaks FLOOP_RULE_x of kernel/rules.h (-DNO_WRITTEN: bmap() returns
 * blocks that are not written). -DOLD_x puts back a flaw that the code had, or
 * that it must not get. -DENDS_ANYHOW leaves out the check that everything
 * ends, and -DIN_FLIGHT the check that no I/O goes to where the block was, to
 * see what else fails. How many there are of each process:
 */
#ifndef IOS
#define IOS 2		/* I/Os, all at the same time */
#endif
#ifndef OPENERS
#define OPENERS 1	/* counted, change the file; -DLOOKS: don't */
#endif
#ifndef UNCOUNTED
#define UNCOUNTED 0	/* change the file, by descriptors without a count */
#endif
#ifndef ATOMICS
#define ATOMICS 0	/* atomic writers on xfs: don't wait for direct I/O */
#endif
#ifndef SWAPS
#define SWAPS 0		/* XFS_IOC_SWAPEXT */
#endif
#ifndef READERS
#define READERS 0	/* fill the page cache, the same way */
#endif
#ifndef DISCARDS
#define DISCARDS 0	/* our own changes; -DSPARSE: may be of a known hole */
#endif
#ifndef FREEZES
#define FREEZES 0	/* the file system is frozen, and thawed */
#endif
#ifndef FLAGS
#define FLAGS 0		/* flags that forbid mapping are set, by path */
#endif
#ifndef STOPS
#define STOPS 0		/* mapping off, or with -DRESTART off and on */
#endif
#ifndef CLOSES
#define CLOSES 0	/* LOOP_CHANGE_FD: the image is replaced and freed */
#endif
#ifndef STORES
#define STORES 0	/* mapping_store() against the last close */
#endif
#ifndef FAILS
#define FAILS 0		/* how many times pages can't be dropped */
#endif

/* Which file system; -DCAN_ATOMIC: FMODE_CAN_ATOMIC_WRITE */
#if UNCOUNTED || ATOMICS
#define XFS
#endif
#if ATOMICS
#define CAN_ATOMIC
#endif

mtype = { OFF, WAITING, BEGINNING, MAPPED, PAUSED, BROKEN };	/* state */
mtype = { EMPTY, TRUE, STALE };		/* the map, and the fill's batch */
mtype = { HOLE, UNWRITTEN, WRITTEN, DURABLE };	/* the block */
mtype = { NONE, FOUND, SENT };			/* a mapped I/O */

/* struct floop_guard, its map and its fill */
mtype state = WAITING;
bool wanted = true;
bool live;
bool dio_held, pages_held;
bool unsettled;
byte changes;
mtype map = EMPTY;
bool map_lock;
bool todo = true;		/* fill.todo is not NULL */
mtype found = EMPTY;		/* the fill's batch, */
bool same_epoch;		/* and whether its epoch goes on */

/* guard->users */
bool ref_live;
byte users;
bool grace;			/* killed: a reference goes later */
bool gone;			/* users_gone() is due */

/* Works: queued, and running. */
bool begin_queued = true, begin_runs;
bool resume_queued, resume_runs;
bool drain_queued, drain_runs;
bool pages_queued, pages_runs;
bool fill_queued, fill_runs, fill_disabled;

/* The file system. */
bool lease;
bool pending;			/* FL_UNLOCK_PENDING */
byte opens;			/* i_writecount, but for ours */
byte dio;			/* i_dio_count */
bool inode_lock, pages_lock;	/* i_rwsem, invalidate_lock; exclusively */
#ifdef SPARSE
mtype block = HOLE;
byte writing;			/* what takes known holes back */
#else
mtype block = WRITTEN;
#endif
bool cached;			/* nrpages is not 0 */
byte older;			/* the writes that the pages are older than */
bool freezing, frozen;
byte writers;			/* sb_start_write() */
bool special;			/* the inode's flags forbid mapping */

/* The device. */
mtype flight[IOS + 1] = NONE;
bool ended[IOS + 1];	/* bio_endio() has been called */
byte in_queue;			/* q_usage_counter */
bool replaced;			/* dev->image is another one */
bool dev_image = true, dev_lock, sysfs = true, storing;
bool freed;			/* kfree(image) */

byte unfinished = IOS + OPENERS + UNCOUNTED + ATOMICS + SWAPS + READERS +
		  DISCARDS + FREEZES + FLAGS + STOPS + CLOSES + 2 * STORES;
byte may_fail = FAILS;
hidden byte i;
hidden byte legal;

#define touch()		assert(!freed)
#define lock(l)		atomic { !l -> l = true }
#define unlock(l)	l = false
#define epoch_is_over()	same_epoch = false

#ifdef OLD_UNLOCKED
bool locked;			/* guard->lock, while users_gone() holds it */
#define can_lock	(!locked)
#else
#define can_lock	true
#endif

inline kill() {
	assert(ref_live);
	ref_live = false;
	grace = true
}

inline reinit() {
	assert(users == 0 && !ref_live && !grace && !gone);
	users = 1;
	ref_live = true
}

inline put() {
	touch();
	users--;
	if
	:: users == 0 -> assert(!gone); gone = true
	:: else
	fi
}

inline queue_fill() {
	fill_queued = fill_queued || !fill_disabled
}

inline queue_resume() {
#if DISCARDS || STOPS || CLOSES || STORES
	resume_queued = true
#else
	assert(false)
#endif
}

/* OLD_RESUME: the task that begins an epoch finds out that it was broken. */
#ifdef OLD_RESUME
#define left_alone	(state == BEGINNING)
#define found_out()	drain_queued = true
#else
#define left_alone	false
#define found_out()	skip
#endif

/* guard_enter(), under guard->lock */
inline enter(to) {
	touch();
	legal = (to == WAITING && (state == OFF || state == BEGINNING ||
				   state == BROKEN)) ||
		(to == BEGINNING && (state == WAITING || state == PAUSED)) ||
		(to == MAPPED && state == BEGINNING) ||
		(to == PAUSED && (state == BEGINNING || state == MAPPED)) ||
		(to == BROKEN && (state == BEGINNING || state == MAPPED ||
				  state == PAUSED)) ||
		(to == OFF && (state == WAITING || state == PAUSED));
	assert(legal);
	if
	:: state == MAPPED -> kill()
	:: to == BROKEN && !live && !left_alone -> drain_queued = true
	:: else
	fi;
	state = to;
	epoch_is_over();
	if
	:: to == BEGINNING -> unsettled = false
	:: to == MAPPED -> queue_fill()
	:: else
	fi
}

/* The file system moves the block, or punches it out. */
inline change(to) {
	d_step {
		i = 0;
		do
		:: i < IOS -> assert(flight[i] == NONE); i++
		:: else -> break
		od;
		i = 0;
		if
		:: map == TRUE -> map = STALE
		:: else
		fi;
		if
		:: found == TRUE -> found = STALE
		:: else
		fi;
		drop();
		block = to
	}
}

/* Drop the pages. */
inline drop() {
	cached = false;
	older = 0
}

inline sb_start_write() {
#if FREEZES
	atomic { !freezing -> writers++ }
#else
	skip
#endif
}

inline sb_end_write() {
#if FREEZES
	writers--
#else
	skip
#endif
}

/* floop_guard_break(), one step; @live is what it returns */
inline guard_break() {
	touch();
#ifndef NO_BREAK
	if
	:: state == BEGINNING || state == MAPPED || state == PAUSED ->
		enter(BROKEN);
#ifndef NO_DRAIN
		if
		:: live ->
			/* floop_hold_changes() */
			dio++;
			dio_held = true;
#ifndef OLD_SWAPEXT
			pages_held = !pages_lock
#endif
		:: else
		fi
#endif
	:: else
	fi
#else
	skip
#endif
}

/*
 * lease_noticed(): under flc_lock, while there is a lease. An uncounted task
 * changes an attribute, or comes to lease_break() next.
 */
inline notice() {
	touch();
#ifndef NO_NOTICE
	if
	:: opens -> guard_break()
	:: else
	fi
#endif
}

/* break_lease() by an open, truncate(2), notify_change(): it never waits. */
inline break_lease() {
	atomic {
		if
		:: !lease
		:: lease && can_lock -> notice()
		fi
	}
}

/* break_layout(), under the inode's lock; lease_break() */
inline break_layout() {
#if !defined(OLD_UNCOUNTED)
	atomic {
		if
		:: !lease
		:: lease && can_lock ->
			notice();
			if
			:: pending -> blocked = true
			:: else ->
#ifndef NO_LAYOUT
				guard_break();
#endif
				if
#if defined(CAN_ATOMIC) && !defined(NO_LAYOUT) && !defined(NO_ATOMIC)
				:: live ->
					pending = true;
					blocked = true
				:: !live -> lease = false
#else
				:: lease = false
#endif
				fi
			fi
		fi
	}
#else
	skip
#endif
}

/* filemap_invalidate_lock() */
#define lock_pages() \
	atomic { !pages_lock && !pages_held -> pages_lock = true }
#define unlock_pages()	pages_lock = false

/* kernel_setlease(F_UNLCK), under flc_lock */
inline give_lease_back() {
	atomic { touch(); lease = false; pending = false }
}

#define may_break \
	(state == BEGINNING || state == MAPPED || state == PAUSED)

/*
 * break_layout(inode, true), without the inode's lock. __break_lease() calls
 * lm_break() once, of the lease that it finds. Then it waits: each jiffy, and
 * when the lease is dropped, it checks whether the lease of that moment
 * conflicts, but doesn't call its lm_break(). So lease_noticed() has to know
 * the tasks that were told to wait.
 */
#ifdef OLD_SHARED
#define was_told	(opens > 0)
#else
#define was_told	true
#endif

inline wait_layout() {
	blocked = false;
	break_layout();
	do
	:: atomic {
			blocked && lease && can_lock && may_break && was_told ->
			guard_break()
		}
	:: blocked && !lease -> blocked = false
	:: !blocked -> break
	od
}

/* A change locks the inode, and checks for the lease again under its lock. */
inline lock_and_break_layout() {
	do
	:: lock(inode_lock);
		break_layout();
		if
		:: blocked -> unlock(inode_lock); wait_layout()
		:: else -> break
		fi
	od
}

#define said(n)		ended[n] = true
#define all_ended()	(ended[0] && ended[IOS - 1])

/* The device's queue, which is frozen to replace the image. */
inline submit_begins() {
#if CLOSES
	atomic {
		if
		:: replaced -> goto elsewhere
		:: else -> in_queue++
		fi
	}
#else
	skip
#endif
}

inline submit_ends() {
#if CLOSES
	in_queue--
#else
	skip
#endif
}

/* floop_remap(), remap_end(), stale_work(); or the file path */
proctype io(byte n) {
#if FLAGS
	bool was;

	was = special;
#endif
	submit_begins();
	if
	:: atomic { ref_live -> touch(); users++ };
#if FLAGS && !defined(NO_FLAGS)
		/* floop_guard_doubt(), with the reference */
		atomic {
			if
			:: !special
#ifndef OLD_DOUBT
			:: special && can_lock -> guard_break(); goto unmapped
#else
			:: special -> put(); goto doubt
#endif
			fi
		};
#endif
#ifndef READ_ONLY
		atomic {
			if
			:: cached -> pages_queued = true; goto unmapped
			:: else
			fi
		};
#endif
		/* remap_place() */
		atomic {
			if
			:: map == EMPTY -> goto unmapped
#ifdef IN_FLIGHT
			:: map == STALE -> goto unmapped
#endif
			:: else -> assert(map == TRUE); flight[n] = FOUND
			fi
		}
#if FREEZES && !defined(NO_FREEZE)
		/* remap_freeze_get() */
		atomic {
			if
			:: freezing -> flight[n] = NONE; goto unmapped
			:: else -> writers++
			fi
		}
#endif
		/* remap_submit() */
		d_step {
			assert(!frozen);
			assert(block == DURABLE);
#if FLAGS
			assert(!was);
#endif
			flight[n] = SENT
		}
		submit_ends();
		/* The disk has written it. */
		d_step {
			flight[n] = NONE;
#ifndef READ_ONLY
			if
			:: cached -> older = older | (1 << n)
			:: else
			fi
#endif
		}
#ifdef OLD_CHAIN
		/* A chained parent completes after its children. */
		n != 0 || ended[IOS - 1];
#endif
		/* remap_end() */
#if !defined(READ_ONLY) && !defined(NO_CACHE)
		atomic {
			touch();
			if
			:: cached -> goto late
			:: else
			fi
		}
#endif
		/* remap_finish() */
#if FREEZES && !defined(NO_FREEZE)
		atomic { touch(); sb_end_write() }
#endif
#ifdef OLD_END
		atomic { put() };
#endif
		/* The bio may come from the image's own bio set. */
		atomic { touch(); assert(!(older & (1 << n))); said(n) };
#ifndef OLD_END
		atomic { put() };
#endif
		goto done;
late:
#if FREEZES && !defined(NO_FREEZE)
		/* remap_freeze_put() */
		atomic { touch(); sb_end_write() };
#endif
#ifdef OLD_STALE
		atomic { put() };
#endif
		/* stale_work() */
		atomic { touch(); drop() };
		atomic { touch(); assert(!(older & (1 << n))); said(n) };
#ifndef OLD_STALE
		atomic { put() };
#endif
		goto done;
#ifdef OLD_DOUBT
doubt:		atomic { can_lock; guard_break() };
		goto file;
#endif
unmapped:	atomic { put() }
	:: atomic { !ref_live -> skip }
	fi;
#ifdef OLD_DOUBT
file:	skip;
#endif
#ifndef READ_ONLY
	/*
	 * Through the file system, which allocates, and converts unwritten
	 * blocks. On xfs it breaks layouts, but our workers' writes end no
	 * epoch (floop_worker_serves()).
	 */
#ifdef SPARSE
	/* floop_holes_write_begin() */
	writing++;
#endif
	sb_start_write();
	atomic {
		!inode_lock;
		touch();
		if
		:: block == HOLE || block == UNWRITTEN -> block = WRITTEN
		:: else
		fi;
		drop()
	}
	sb_end_write();
#ifdef SPARSE
	writing--;
#endif
	/* floop_fill_wrote() */
	atomic { touch(); queue_fill() }
#endif
	said(n);
	submit_ends();
done:
elsewhere: skip;
	atomic { said(n); unfinished-- }
}

/* percpu_ref: a grace period after percpu_ref_kill(); users_gone() */
active proctype users_gone() {
end:	do
	:: atomic { grace -> grace = false; put() }
	:: atomic {
			gone -> gone = false;
			touch();
#ifdef OLD_UNLOCKED
			live = false;
			locked = true
		}
		atomic {
			touch();
			locked = false;
#endif
#ifndef OLD_LATE
			live = false;
#endif
			/* floop_hold_release() */
			pages_held = false;
			if
			:: dio_held -> dio--; dio_held = false
			:: else
			fi;
			if
			:: state == BROKEN -> drain_queued = true
			:: else
			fi
		}
#ifdef OLD_LATE
		live = false
#endif
	od
}

#ifdef OLD_LATE
#define drained()	(users == 0)
#else
#define drained()	(!live)
#endif

#if !defined(OLD_ADDS)
#define in_epoch()	(state == MAPPED && same_epoch && !changes)
#else
#define in_epoch()	(state == MAPPED && same_epoch)
#endif

/* fill_work(), batch_commit() */
active proctype fill_work() {
end:	do
	:: atomic {
			fill_queued -> fill_queued = false;
			fill_runs = true;
			touch()
		}
		atomic {
			same_epoch = true;
			if
			:: in_epoch() && map == EMPTY
			:: else -> goto out
			fi
		}
		/* look_up_chunk(): not under the inode's lock */
		atomic {
			touch();
			if
			:: block == WRITTEN || block == DURABLE -> found = TRUE
#ifdef NO_WRITTEN
			:: block == UNWRITTEN -> found = TRUE
#endif
			:: else -> goto out
			fi
		}
#ifndef NO_DURABLE
		/* floop_image_make_durable() */
		d_step {
			touch();
			if
			:: block == WRITTEN -> block = DURABLE
			:: else
			fi
		}
#endif
		lock(map_lock);
		atomic {
			touch();
			if
#ifndef NO_EPOCH
			:: !in_epoch()
			:: in_epoch() -> map = found
#else
			:: map = found
#endif
			fi
		}
		unlock(map_lock);
out:		atomic { found = EMPTY; same_epoch = false; fill_runs = false }
	od
}

/* wait_again(), under guard->lock */
inline wait_again() {
	enter(WAITING);
	begin_queued = begin_queued || wanted
}

/* floop_fill_restart(), under map.lock. A stop may have freed the bitmap. */
inline fill_again() {
#ifdef OLD_TODO
	assert(todo)
#else
	if
	:: todo -> assert(todo)		/* the check, and the use */
	:: !todo
	fi
#endif
}

inline clear_map() {
	lock(map_lock);
	touch();
#ifndef NO_CLEAR
	map = EMPTY;
#endif
	fill_again();
	unlock(map_lock)
}

inline guard_give_up() {
	give_lease_back();
	clear_map();
	atomic {
		can_lock;
		if
		:: state == BEGINNING -> wait_again()
		:: else -> found_out()
		fi
	}
}

/* The two halves of guard_begin_epoch(), each under guard->lock. */
inline guard_begin_epoch() {
	atomic {
		can_lock;
		touch();
		if
		:: state != BEGINNING -> found_out()
		:: state == BEGINNING && (changes || unsettled) ->
			enter(PAUSED);
			if
			:: !changes -> queue_resume()
			:: else
			fi
		:: else -> live = true; begun = true
		fi
	}
	if
	:: !begun
	:: begun ->
		atomic { touch(); begun = false; reinit() }
		atomic {
			can_lock;
			if
			:: state == BEGINNING && !changes ->
#if !defined(NO_LEASE) && !defined(IN_FLIGHT)
				assert(lease);
#endif
				enter(MAPPED)
			:: else ->
				if
				:: state == BEGINNING -> enter(PAUSED)
				:: else
				fi;
				kill()
			fi
		}
	fi
}

active proctype begin_work() {
	bool begun, ok;
end:	do
	:: atomic {
			begin_queued && !opens && !special ->
			begin_queued = false;
			begin_runs = true;
			touch()
		}
		if
		:: state == WAITING
		:: else -> goto out
		fi;
#if !defined(OLD_BOTH) && !defined(OLD_RESUME) && \
    (DISCARDS || STOPS || CLOSES || STORES)
		/* cancel_delayed_work_sync(&guard->resume_work) */
		atomic { touch(); resume_queued = false }
		!resume_runs;
#endif
		/* try_to_begin() */
		atomic {
			can_lock;
			touch();
			if
			:: wanted && state == WAITING && drained() ->
				enter(BEGINNING)
			:: else -> goto out
			fi
		}
		/* floop_lease_take() */
#ifndef NO_LEASE
		atomic { touch(); lease = true; pending = false }
#ifndef OLD_PASSED
		/* nobody_is_inside() */
		atomic { touch(); ok = !inode_lock }
#else
		ok = true;
#endif
		/* is_opened() */
		atomic { touch(); ok = ok && !opens }
#else
		ok = true;
#endif
		/* prepare_epoch() */
		atomic {
			touch();
			if
			:: ok && !special -> drop()
			:: ok && special -> ok = false
			:: ok && may_fail -> may_fail--; ok = false
			:: !ok
			fi
		}
		if
		:: ok -> guard_begin_epoch()
		:: else -> guard_give_up()
		fi;
out:		atomic { ok = false; begin_runs = false }
	od
}

#if DISCARDS || STOPS || CLOSES || STORES
active proctype resume_work() {
	bool begun, ok;
end:	do
	:: atomic {
			resume_queued -> resume_queued = false;
			resume_runs = true;
			touch()
		}
#ifdef OLD_RESUME
		/* may_resume(); then, without the lock, wait; and look again */
		atomic {
			if
			:: wanted && state == PAUSED && !changes
			:: else -> goto out
			fi
		}
		!live;
		!drain_queued && !drain_runs;
#endif
		/* try_to_begin() */
		atomic {
			can_lock;
			touch();
			if
			:: wanted && state == PAUSED && drained() && !changes ->
				enter(BEGINNING)
			:: else -> goto out
			fi
		}
		/* floop_cache_drop() */
		atomic {
			touch();
			if
			:: drop(); ok = true
			:: may_fail -> may_fail--; ok = false
			fi
		}
		if
		:: ok -> guard_begin_epoch()
		:: else -> guard_give_up()
		fi;
out:		atomic { ok = false; resume_runs = false }
	od
}
#endif

/* Takes no lock that a task in inode_dio_wait() may hold. */
active proctype drain_work() {
end:	do
	:: atomic {
			drain_queued -> drain_queued = false;
			drain_runs = true;
			touch()
		}
		atomic {
			can_lock;
			touch();
			if
			:: state == BROKEN && drained()
			:: else -> goto out
			fi
		}
		give_lease_back();
		clear_map();
		atomic { can_lock; wait_again() }
out:		drain_runs = false
	od
}

#if READERS
active proctype pages_work() {
end:	do
	:: atomic {
			pages_queued -> pages_queued = false;
			pages_runs = true;
			touch()
		}
		atomic { touch(); drop() }
		pages_runs = false
	od
}
#endif

/* floop_guard_pause() */
inline end_mapped() {
	atomic {
		can_lock;
		touch();
		changes++;
		if
		:: state == MAPPED -> enter(PAUSED)
		:: else
		fi
	}
	/* wait_event_lock_irq() */
#ifdef OLD_UNLOCKED
	!live
#else
	!live && can_lock
#endif
}

#if OPENERS
/*
 * A counted opener: do_dentry_open() counts it, then calls break_lease(). A
 * change of the file's blocks calls inode_dio_wait() under the inode's lock.
 */
proctype opener() {
#ifdef XFS
	bool blocked;
#endif

	opens++;
	break_lease();
#ifndef LOOKS
#ifdef READS
	/* It may read what mapped writes in flight are about to change. */
	if
	:: atomic { !cached -> cached = true }
	:: skip
	fi;
#endif
	sb_start_write();
#ifdef XFS
	lock_and_break_layout();
#else
	lock(inode_lock);
#endif
	/* As in fallocate(); other changes wait for direct I/O first. */
	lock_pages();
	dio == 0;
	change(DURABLE);
	unlock_pages();
	unlock(inode_lock);
	sb_end_write();
#endif
	opens--;
	unfinished--
}
#endif

#if UNCOUNTED
/*
 * FIDEDUPERANGE on xfs, through a descriptor that doesn't count and may be
 * older than the attach: one of mode 3, or one to read if the device is
 * read-only.
 */
proctype uncounted() {
	bool blocked;

	lock_and_break_layout();
	lock_pages();
	dio == 0;
	change(DURABLE);
	unlock_pages();
	unlock(inode_lock);
	unfinished--
}
#endif

#if SWAPS
/* XFS_IOC_SWAPEXT: breaks no layouts, doesn't wait for direct I/O */
proctype swapext() {
	opens++;
	break_lease();
	lock(inode_lock);
	lock_pages();
	change(DURABLE);
	unlock_pages();
	unlock(inode_lock);
	opens--;
	unfinished--
}
#endif

#if ATOMICS
/*
 * xfs_file_dio_write_atomic(): a counted opener. It breaks layouts with the
 * inode's lock held shared, doesn't wait for direct I/O, and remaps as the
 * write completes, without the lock.
 */
proctype atomic_writer() {
	bool blocked;

	opens++;
	break_lease();
	sb_start_write();
	do
	:: !inode_lock;
		break_layout();
		if
		:: blocked -> wait_layout()
		:: else -> break
		fi
	od;
	change(DURABLE);
	sb_end_write();
	opens--;
	unfinished--
}
#endif

#if READERS
/* posix_fadvise(POSIX_FADV_WILLNEED) works with a descriptor of any mode. */
proctype reader() {
	cached = true;
	unfinished--
}
#endif

#if FLAGS
/* file_setattr(2): by path, without an open */
proctype set_flags() {
	special = true;
	unfinished--
}
#endif

#if DISCARDS
/* discard_guarded() */
proctype discard() {
	bool may = true;

	submit_begins();
#ifdef SPARSE
	/* floop_change_hole_begin(): it may be known to be one */
	lock(map_lock);
	atomic {
		can_lock;
		touch();
		if
		:: state == MAPPED && (block == HOLE || block == UNWRITTEN) &&
		   !writing ->
#ifndef OLD_ADDED_LATE
			epoch_is_over();
#endif
			changes++
		:: else -> unlock(map_lock); goto not_a_hole
		fi
	}
	unlock(map_lock);
	sb_start_write();
	lock(inode_lock);
	lock_pages();
	dio == 0;
	touch();
	if
	:: change(HOLE)
	:: change(UNWRITTEN)
	fi;
	unlock_pages();
	unlock(inode_lock);
	sb_end_write();
	/* floop_change_hole_end() */
	atomic {
		can_lock;
		touch();
		if
		:: state != MAPPED -> unsettled = true
		:: else
		fi;
		changes--;
		if
		:: !changes && state == PAUSED -> queue_resume()
		:: else
		fi
	}
	/* floop_fill_wrote() */
	atomic { touch(); queue_fill() }
	submit_ends();
	goto elsewhere;
not_a_hole: skip;
#endif
#ifndef NO_CHANGES
	end_mapped();
	atomic { can_lock; touch(); may = state != PAUSED }
	/* floop_cache_drop() */
	atomic {
		touch();
		if
		:: may
		:: !may -> drop(); may = true
		:: !may && may_fail -> may_fail--
		fi
	}
#endif
	if
	:: may ->
		sb_start_write();
		lock(inode_lock);
		lock_pages();
		dio == 0;
		touch();
		if
		:: change(HOLE)
		:: change(UNWRITTEN)	/* FALLOC_FL_ZERO_RANGE */
		fi;
		unlock_pages();
		unlock(inode_lock);
		sb_end_write()
	:: else
	fi;
#ifndef NO_CHANGES
	lock(map_lock);
	touch();
	map = EMPTY;
	unlock(map_lock);
	atomic {
		can_lock;
		touch();
		unsettled = true;
		changes--;
		if
		:: !changes && state == PAUSED -> queue_resume()
		:: else
		fi
	}
#endif
	submit_ends();
elsewhere: skip;
	unfinished--
}
#endif

#if FREEZES
/* freeze_super() and thaw_super() */
proctype freezer() {
	freezing = true;
	atomic { writers == 0 -> frozen = true }
	d_step {
		i = 0;
		do
		:: i < IOS -> assert(flight[i] != SENT); i++
		:: else -> break
		od;
		i = 0
	}
	d_step { frozen = false; freezing = false }
	unfinished--
}
#endif

#if STOPS || CLOSES || STORES
/* floop_guard_stop() */
inline guard_stop() {
	atomic { can_lock; touch(); runs = state != OFF; wanted = false }
	if
	:: !runs
	:: runs ->
#ifndef OLD_RESUME
		end_mapped();
#endif
		/* cancel_delayed_work_sync() */
		atomic { touch(); begin_queued = false }
		!begin_runs;
		atomic { touch(); resume_queued = false }
		!resume_runs;
		atomic { touch(); pages_queued = false }
		!pages_runs;
		/* floop_fill_stop() */
		atomic { touch(); fill_disabled = true; fill_queued = false }
		!fill_runs;
#ifdef OLD_TODO
		todo = false;
#else
		lock(map_lock);
		todo = false;
		unlock(map_lock);
#endif
#ifdef OLD_RESUME
		end_mapped();
#endif
#ifdef OLD_GIVE_BACK
		/* vfs_setlease() may refuse, and its result is ignored. */
		if
		:: give_lease_back()
		:: skip
		fi;
#else
		give_lease_back();
#endif
		/* flush_work() */
		!drain_queued && !drain_runs;
		touch();
		lock(map_lock);
		map = EMPTY;
		unlock(map_lock);
		atomic { can_lock; changes--; enter(OFF); runs = false }
	fi
}

/* floop_guard_start() */
inline guard_start() {
	atomic { touch(); todo = true; fill_disabled = false; wanted = true }
	atomic { can_lock; wait_again() }
}

/* floop_image_close(), floop_guard_exit_image() */
inline image_close() {
	guard_stop();
	atomic { pages_queued = false }
	!pages_runs;
	freed = true
}
#endif

#if STOPS
/* floop_settings_set_mapping(), with dev->lock held */
proctype stop() {
	bool runs;

	guard_stop();
#ifdef RESTART
	guard_start();
#endif
	unfinished--
}
#endif

#if CLOSES
/* floop_change_fd(): the queue is frozen, and I/O goes to another image. */
proctype change_fd() {
	bool runs;

	atomic { in_queue == 0 -> replaced = true }
	image_close();
	unfinished--
}
#endif

#if STORES
/* mapping_store(), remap_whole(): each read of dev->image is a step. */
proctype store() {
	bool runs;

	/* kernfs_get_active() */
	atomic {
		if
		:: sysfs -> storing = true
		:: else -> goto out
		fi
	}
	lock(dev_lock);
	if
	:: !dev_image
	:: dev_image ->
		assert(dev_image);
		guard_stop();
		assert(dev_image);
		guard_start()
	fi;
	unlock(dev_lock);
	storing = false;
out:	unfinished--
}

/* floop_detach() at the last close: nobody has the device open. */
proctype clear() {
	bool runs;

	all_ended();
#ifdef OLD_CLEAR
	dev_image = false;
	sysfs = false;
	!storing;
#else
	sysfs = false;
	!storing;
	lock(dev_lock);
	dev_image = false;
	unlock(dev_lock);
#endif
	image_close();
	unfinished--
}
#endif

#ifndef ENDS_ANYHOW
/* No process can go on: has each come to its end? */
active proctype quiet() {
	timeout;
	assert(unfinished == 0);
	assert(!begin_runs && !resume_runs && !drain_runs && !fill_runs);
	assert(dio == 0 && !changes && !inode_lock && !pages_lock);
	assert(!pages_held && !map_lock && !writers);
	assert(!older && !dev_lock);
	assert(state == (wanted -> MAPPED : OFF) ||
	       special && state == WAITING)
}
#endif

init {
	byte n;

	atomic {
		do
		:: n < IOS -> run io(n); n++
		:: else -> break
		od;
		n = 0;
#if OPENERS
		do
		:: n < OPENERS -> run opener(); n++
		:: else -> break
		od;
		n = 0;
#endif
#if UNCOUNTED
		do
		:: n < UNCOUNTED -> run uncounted(); n++
		:: else -> break
		od;
		n = 0;
#endif
#if READERS
		do
		:: n < READERS -> run reader(); n++
		:: else -> break
		od;
		n = 0;
#endif
#if DISCARDS
		do
		:: n < DISCARDS -> run discard(); n++
		:: else -> break
		od;
		n = 0;
#endif
#if ATOMICS
		run atomic_writer();
#endif
#if SWAPS
		run swapext();
#endif
#if FLAGS
		run set_flags();
#endif
#if FREEZES
		run freezer();
#endif
#if STOPS
		run stop();
#endif
#if CLOSES
		run change_fd();
#endif
#if STORES
		run store();
		run clear();
#endif
		skip
	}
}
