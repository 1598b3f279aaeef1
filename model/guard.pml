/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The guard's protocol (kernel/guard.c, lease.c, fill.c, remap.c, discard.c) as a model,
 * for spin. States, order of steps and locks are the code's; each process names
 * the function that it stands for. check.py runs it.
 *
 * What must hold, however the steps interleave:
 *  - the image's block never moves while a mapped I/O is under way to where it
 *    was, and no I/O is sent to where it was before (change(), io());
 *  - only a written and durable block is written to (io());
 *  - while the file system is frozen no mapped write is in flight (freezer());
 *  - once a break has drained, nothing in the page cache is older than what
 *    mapped writes have written (drain_work());
 *  - everything ends: each I/O, open, discard, freeze and the stop (quiet()).
 *    Then no dio count is left, and the image is mapped again (or stopped).
 *
 * What it leaves out:
 *  - More than one block. A map is empty, true, or stale: EMPTY, TRUE, STALE.
 *    So taking a range out of it and clearing it are the same.
 *  - Time. Delayed work runs at any time after it is queued; only an attempt to
 *    get the lease is not begun while the image is open, as it would go on and
 *    on. (It may be opened between that and the attempt.)
 *  - Memory order: what is atomic here is so by a lock, by the percpu_ref with
 *    RCU, or by the file system's own locks. A section under guard->lock is one
 *    step, and so is one under flc_lock; map.lock and the inode's are locks here.
 *    percpu_ref_tryget_live() is one step, the reference that percpu_ref_kill()
 *    drops goes after a grace period, and users_gone() is two steps.
 *  - The number of an epoch: all that is asked of it is whether it is the same as
 *    when the fill looked, so a bit says that it isn't.
 *  - Reads of a device that is written to (a write's steps without the freeze
 *    protection), splits, errors, failing allocations, block devices as images,
 *    flushes (FLOOP_RULE_FLUSH), times, and crashes: "durable" is "an fsync came
 *    after it was allocated".
 *
 * -DNO_x breaks FLOOP_RULE_x of kernel/rules.h (NO_WRITTEN: bmap() gives blocks
 * that aren't written); -DOLD_x puts back a flaw that the
 * model has found. -DENDS_ANYHOW doesn't ask whether everything ends, -DIN_FLIGHT
 * not whether I/O goes to where the block was: to see what else fails then. How
 * many of each there are:
 */
#ifndef IOS
#define IOS 2		/* I/Os, all at the same time */
#endif
#ifndef OPENERS
#define OPENERS 1	/* other openers, each of whom changes the file */
#endif
#ifndef DISCARDS
#define DISCARDS 0	/* discards, at the same time or one after the other */
#endif
#ifndef FREEZES
#define FREEZES 0	/* the file system is frozen, and thawed */
#endif
#ifndef STOPS
#define STOPS 0		/* detach, or with -DRESTART stop and start */
#endif

mtype = { OFF, WAITING, BEGINNING, MAPPED, PAUSED, BROKEN };	/* guard->state */
mtype = { EMPTY, TRUE, STALE };			/* map, what was found, page cache */
mtype = { HOLE, UNWRITTEN, WRITTEN, DURABLE };	/* the block */
mtype = { NONE, FOUND, SENT };			/* a mapped I/O */

/* struct floop_guard, its map and its fill */
mtype state = WAITING;
bool wanted = true;
bool dio_held;
byte changes;
bool drained = true;		/* the completion */
mtype map = EMPTY;
bool map_lock;
bool todo = true;		/* fill.todo is not NULL */
mtype found = EMPTY;		/* the fill's batch, */
bool same_epoch;		/* and whether the epoch is still that of its look */

/* guard->users */
bool live;
byte users;
bool grace;			/* killed: one reference goes after a grace period */
bool gone;			/* users_gone() is due */

/* works: queued, and running */
bool begin_queued = true, begin_runs;
bool resume_queued, resume_runs;
bool drain_queued, drain_runs;
bool fill_queued, fill_runs, fill_disabled;

/* the file system */
bool lease;
bool layout;			/* the layout lease (-DREAD_ONLY) */
byte opens;			/* i_writecount, but for ours */
byte dio;			/* i_dio_count */
bool inode_lock;
mtype block = WRITTEN;
mtype cached = EMPTY;
bool freezing, frozen;
byte writers;			/* sb_start_write() */

mtype flight[IOS] = NONE;
byte unfinished = IOS + OPENERS + DISCARDS + FREEZES + STOPS;
#ifndef FAILS
#define FAILS 0			/* how many times settle() fails */
#endif
byte may_fail = FAILS;

#define is_zero()	(users == 0)
#define lock(l)		atomic { !l -> l = true }
#define unlock(l)	l = false
#define epoch_is_over()	same_epoch = false

inline kill() {
	assert(live);
	live = false;
	grace = true
}

inline reinit() {
	assert(users == 0 && !live && !grace);
	users = 1;
	live = true
}

inline put() {
	users--;
	if
	:: users == 0 -> assert(!gone); gone = true
	:: else
	fi
}

/* The file system moves the block, or punches it out. Under the inode's lock. */
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
		cached = EMPTY;
		block = to
	}
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

inline queue_fill() {
	fill_queued = fill_queued || !fill_disabled
}

/* In the opener's context, under flc_lock: one step. The lease is gone at once. */
inline guard_break() {
#ifndef NO_BREAK
	if
	:: state == MAPPED || state == PAUSED || state == BEGINNING ->
		if
		:: state == MAPPED -> kill()
		:: state == PAUSED && is_zero() -> drain_queued = true
		:: else
		fi;
#ifndef NO_DRAIN
		dio++;
		dio_held = true;
#endif
		state = BROKEN;
		epoch_is_over()
	:: else
	fi
#else
	skip
#endif
}

/* floop_remap(), remap_end(); or the file path */
proctype io(byte n) {
	if
	:: atomic { live -> users++ };
		/* find() */
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
		/* protect() */
		atomic {
			if
			:: freezing -> flight[n] = NONE; goto unmapped
			:: else -> writers++
			fi
		}
#endif
		/* submit() */
		d_step {
			assert(!frozen);
			assert(block == DURABLE);
			flight[n] = SENT
		}
		/* remap_end() */
		d_step {
			flight[n] = NONE;
#ifndef READ_ONLY
			if
			:: cached == TRUE -> cached = STALE
			:: else
			fi;
#if FREEZES && !defined(NO_FREEZE)
			writers--
#endif
#endif
		}
		atomic { put() }
		goto done
unmapped:	atomic { put() }
	:: atomic { !live -> skip }
	fi;
#ifndef READ_ONLY
	/* Through the file system: it allocates, and converts what is unwritten. */
	sb_start_write();
	atomic {
		!inode_lock;
		if
		:: block == HOLE || block == UNWRITTEN -> block = WRITTEN
		:: else
		fi;
		cached = EMPTY;
		/* floop_fill_wrote() */
		queue_fill()
	}
	sb_end_write();
#endif
done:	unfinished--
}

/* percpu_ref: a grace period after percpu_ref_kill(); users_gone() */
active proctype users_gone() {
end:	do
	:: atomic { grace -> grace = false; put() }
	:: atomic { gone -> gone = false; drain_queued = true }
		drained = true
	od
}

#define in_epoch()	(state == MAPPED && same_epoch)

/* fill_work(), batch_enter() */
active proctype fill_work() {
end:	do
	:: atomic { fill_queued -> fill_queued = false; fill_runs = true }
		atomic {
			same_epoch = true;
			if
			:: in_epoch() && map == EMPTY
			:: else -> goto out
			fi
		}
		/* look_up_chunk(): on xfs not under the inode's lock */
		atomic {
			if
			:: block == WRITTEN || block == DURABLE -> found = TRUE
#ifdef NO_WRITTEN
			:: block == UNWRITTEN -> found = TRUE
#endif
			:: else -> goto out
			fi
		}
#ifndef NO_DURABLE
		/* floop_image_write_back() */
		d_step {
			if
			:: block == WRITTEN -> block = DURABLE
			:: else
			fi
		}
#endif
		lock(map_lock);
		if
#ifndef NO_EPOCH
		:: !in_epoch()
		:: in_epoch() -> map = found
#else
		:: map = found
#endif
		fi;
		unlock(map_lock);
out:		atomic { found = EMPTY; same_epoch = false; fill_runs = false }
	od
}

inline retry_later() {
	begin_queued = begin_queued || wanted
}

/* The two halves of begin_epoch(), each under guard->lock. */
inline begin_epoch() {
	atomic {
		if
		:: state != BEGINNING -> drain_queued = true; begun = true
		:: else ->
			if
			:: changes -> state = PAUSED; begun = true
			:: else -> drained = false; begun = false
			fi
		fi
	}
	if
	:: begun
	:: else ->
		atomic { reinit() }
		atomic {
			if
			:: state == BEGINNING && !changes ->
				state = MAPPED;
				epoch_is_over();
				/* settle() has dropped them, nobody else can have any. */
				assert(cached == EMPTY || opens);
				queue_fill()
			:: else ->
				if
				:: state == BEGINNING -> state = PAUSED
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
			begin_queued && !opens -> begin_queued = false;
			begin_runs = true
		}
		atomic {
			if
			:: wanted && state == WAITING -> state = BEGINNING
			:: else -> goto out
			fi
		}
		/* floop_leases_take() */
#if defined(READ_ONLY) && !defined(NO_LAYOUT)
		layout = true;
#endif
		atomic {
#ifdef NO_LEASE
			ok = true
#else
#ifdef OLD_PASSED
			ok = !opens;
#else
			/* generic_add_lease(): inode_trylock() */
			ok = !opens && !inode_lock;
#endif
			lease = ok
#endif
		}
		/* settle() */
		if
		:: ok -> cached = EMPTY
		:: ok && may_fail -> may_fail--; ok = false
		:: !ok
		fi;
		if
		:: ok -> begin_epoch()
		:: else ->
			atomic { lease = false; layout = false }
			atomic {
				if
				:: state == BEGINNING ->
					state = WAITING;
					retry_later()
				:: else -> drain_queued = true
				fi
			}
		fi;
out:		begun = false;
		ok = false;
		begin_runs = false
	od
}

#if DISCARDS || STOPS
active proctype resume_work() {
	bool begun;
end:	do
	:: atomic { resume_queued -> resume_queued = false; resume_runs = true }
#ifndef OLD_STRAY
		/* flush_work(): what is left of the pause may not drain what begins here. */
		!drain_queued && !drain_runs;
#endif
		atomic {
			if
			:: wanted && state == PAUSED && !changes && is_zero() ->
				state = BEGINNING
			:: else -> goto out
			fi
		}
		begin_epoch();
out:		begun = false;
		resume_runs = false
	od
}
#endif

/* floop_fill_again(), with map.lock held: a detach may have freed the bitmap. */
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

/* Takes no lock that who waits in inode_dio_wait() may hold. */
active proctype drain_work() {
end:	do
	:: atomic { drain_queued -> drain_queued = false; drain_runs = true }
		atomic {
			if
			:: state == BROKEN && is_zero()
			:: else -> goto out
			fi
		}
#ifndef OLD_LATE
		/* users_gone() may not complete what the next epoch will wait for. */
		drained;
#endif
#ifndef NO_CACHE
		/* invalidate_inode_pages2() */
		cached = EMPTY;
#endif
		lock(map_lock);
#ifndef NO_CLEAR
		map = EMPTY;
#endif
		fill_again();
		unlock(map_lock);
		/* give_leases_back() */
		atomic { lease = false; layout = false }
		atomic {
			assert(cached != STALE);
			state = WAITING;
			if
			:: dio_held -> dio--; dio_held = false
			:: else
			fi;
			retry_later()
		}
out:		drain_runs = false
	od
}

inline end_mapped() {
	atomic {
		changes++;
		if
		:: state == MAPPED -> state = PAUSED; epoch_is_over(); kill()
		:: else
		fi;
		wait = state == PAUSED || state == BEGINNING || state == BROKEN
	}
	!wait || drained;
	wait = false
}

#if OPENERS
/*
 * Another opener: do_dentry_open() counts it, then calls break_lease(). What
 * changes the file's blocks calls inode_dio_wait() under the inode's lock.
 */
proctype opener() {
	byte i;

#ifndef READ_ONLY
	opens++;
	atomic {
		if
		:: lease -> guard_break(); lease = false
		:: else
		fi
	}
#ifdef READS
	/* It may read what mapped writes in flight are about to change. */
	if
	:: atomic { cached == EMPTY -> cached = TRUE }
	:: skip
	fi;
#endif
	sb_start_write();
	lock(inode_lock);
#else
	/*
	 * It has the image open for reading, and dedupes it: on xfs the layout
	 * lease is broken under the inode's lock.
	 */
	lock(inode_lock);
	atomic {
		if
		:: layout -> guard_break(); layout = false
		:: else
		fi
	}
#endif
	dio == 0;
	change(DURABLE);
	unlock(inode_lock);
#ifndef READ_ONLY
	sb_end_write();
	opens--;
#endif
	unfinished--
}
#endif

#if DISCARDS
/* floop_discard(), between floop_guard_change_begin() and _end() */
proctype discard() {
	byte i;
	bool wait;

#ifndef NO_CHANGES
	end_mapped();
#endif
	sb_start_write();
	lock(inode_lock);
	dio == 0;
	if
	:: change(HOLE)
	:: change(UNWRITTEN)	/* FALLOC_FL_ZERO_RANGE */
	fi;
	unlock(inode_lock);
	sb_end_write();
#ifndef NO_CHANGES
	lock(map_lock);
	map = EMPTY;
	unlock(map_lock);
	atomic {
		changes--;
		if
		:: !changes && state == PAUSED -> resume_queued = true
		:: else
		fi
	}
#endif
	unfinished--
}
#endif

#if FREEZES
/* freeze_super() and thaw_super() */
proctype freezer() {
	byte i;

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

#if STOPS
/* floop_guard_stop(); -DRESTART: and floop_guard_start() */
proctype stop() {
	bool wait;

	wanted = false;
	/* cancel_delayed_work_sync() */
	atomic { begin_queued = false }
	!begin_runs;
	atomic { resume_queued = false }
	!resume_runs;
	/* floop_fill_stop() */
	atomic { fill_disabled = true; fill_queued = false }
	!fill_runs;
#ifdef OLD_TODO
	todo = false;
#else
	lock(map_lock);
	todo = false;
	unlock(map_lock);
#endif
	end_mapped();
	/* give_leases_back() */
	atomic { lease = false; layout = false }
	/* flush_work() */
	!drain_queued && !drain_runs;
	lock(map_lock);
	map = EMPTY;
	unlock(map_lock);
	atomic { changes--; state = OFF };
	assert(!dio_held);
#ifdef RESTART
	atomic { wanted = true; todo = true; fill_disabled = false }
	atomic { state = WAITING; retry_later() }
#endif
	unfinished--
}
#endif

#ifndef ENDS_ANYHOW
/* Nothing can go on: has all come to its end? */
active proctype quiet() {
	timeout;
	assert(unfinished == 0);
	assert(dio == 0 && !changes && !inode_lock && !map_lock && !writers);
	assert(state == (wanted -> MAPPED : OFF))
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
#if DISCARDS
		do
		:: n < DISCARDS -> run discard(); n++
		:: else -> break
		od;
		n = 0;
#endif
#if FREEZES
		run freezer();
#endif
#if STOPS
		run stop()
#endif
	}
}
