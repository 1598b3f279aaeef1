/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Mapped I/O to a file that shares blocks (kernel/shared.c, hole.c, fill.c,
 * hold.c) as a model for spin: one block of the file, within one epoch, up to
 * the opener who ends it. guard.pml has the epoch. Each process names the
 * function that it stands for; a section under a spinlock is one step.
 *
 * What must hold, however the steps interleave:
 *  - The block doesn't move while mapped I/O to it is in flight, and no I/O
 *    goes to where it was before: move(), io().
 *  - Mapped I/O doesn't write to what another file has, too: io().
 *  - Everything ends, and then the block is in the map where it is: quiet().
 *
 * What the model leaves out: all blocks but one; the sides of sides.c, instead
 * of which a write knows the I/Os that it waits for; memory order; pages.
 *
 * -DNO_SHARED breaks FLOOP_RULE_SHARED of kernel/rules.h. -DOLD_x puts in a
 * flaw that the code must not get. How many there are of each process:
 */
#ifndef IOS
#define IOS 2		/* mapped I/Os, each a read or a write */
#endif
#ifndef WRITES
#define WRITES 2	/* our own writes through the file system */
#endif
#ifndef OPENERS
#define OPENERS 0	/* others, who open the image and write to it */
#endif

mtype = { NOWHERE, SHARED, OWN };	/* what the map has */

bool mapped = true;		/* guard.state: not broken yet */
mtype map = NOWHERE;
byte map_place;			/* where the map has the block */
bool moved;			/* struct floop_holes: moved */
byte begun, over;		/* struct floop_holes: begun, ended */
bool inside[IOS + 1];		/* struct floop_inside */
bool sent[IOS + 1];		/* on its way to the disk */
bool fill_queued = true;

byte place;			/* where the block is */
bool others = true;		/* another file has it, too */

byte unfinished = IOS + WRITES + OPENERS;
hidden byte i;

/* xfs copies the block: what was mapped is somebody else's from here on. */
inline move() {
	d_step {
		i = 0;
		do
		:: i < IOS -> assert(!sent[i]); i++
		:: else -> break
		od;
		i = 0;
		place++;
		others = false
	}
}

/* xfs writes: it may have blocks for a copy of what nobody shares, too. */
inline write_iter() {
	if
	:: move()
	:: !others -> skip
	fi
}

/* remap.c, floop_shared_begin(), floop_shared_end() */
proctype io(byte id; bool write) {
	mtype seen;
	byte to;

#ifdef OLD_COUNTED_LATE
	if
	:: moved -> goto out
	:: else
	fi;
#endif
#ifdef OLD_FOUND_EARLY
	atomic { seen = map; to = map_place }
#endif
	inside[id] = true;
	if
	:: !mapped -> goto out
	:: else
	fi;
#ifndef OLD_COUNTED_LATE
	if
	:: moved -> goto out
	:: else
	fi;
#endif
#ifndef OLD_FOUND_EARLY
	atomic { seen = map; to = map_place }
#endif
	if
	:: seen == NOWHERE || (write && seen == SHARED) -> goto out
	:: else
	fi;
	d_step {
		sent[id] = true;
		assert(to == place);
		assert(!write || !others)
	}
	d_step {
		sent[id] = false;
		assert(to == place)
	}
out:	skip;
	d_step {
		inside[id] = false;
		unfinished--
	}
}

/* io.c, floop_holes_write_begin(), floop_shared_write_begin(), rw.c */
proctype file_write() {
	bool there[IOS + 1];
	byte n;

	d_step {
		begun++;
#ifndef NO_SHARED
		moved = true
#endif
	}
#ifndef NO_SHARED
	d_step {
		do
		:: n < IOS -> there[n] = inside[n]; n++
		:: else -> break
		od;
		n = 0
	}
	do
	:: n < IOS && (!there[n] || !inside[n]) -> n++
	:: n == IOS -> break
	od;
#endif
	write_iter();
	d_step {
		over++;
		fill_queued = true;
		unfinished--
	}
}

/* fill_work() */
active proctype fill() {
	mtype found;
	byte at, before;
	bool quiet;

end:	do
	:: atomic { fill_queued -> fill_queued = false }
		/* take_moved() */
		if
		:: moved ->
#ifdef OLD_SETTLED_EARLY
			moved = false;
			map = NOWHERE
#else
			map = NOWHERE;
			moved = false
#endif
		:: else
		fi;
		/* floop_holes_look_at_parts(): ended first */
		before = over;
		atomic { quiet = begun == before; before = begun }
		/* ->fiemap() */
		atomic {
			at = place;
			if
			:: others -> found = SHARED
			:: else -> found = OWN
			fi
		}
		/* map_quiet() */
#ifdef OLD_BUSY
		quiet = true;
#else
		atomic { quiet = quiet && begun == before }
#endif
		if
		:: quiet && mapped -> atomic { map = found; map_place = at }
		:: else
		fi
	od
}

/* Another file gives up its share; nothing notices that. */
active proctype sharer() {
	atomic { others = false; fill_queued = true }
}

/*
 * Somebody opens the image to write: floop_guard_break(), then
 * floop_hold_is_partial(), in open(2).
 */
proctype opener() {
	bool wait;
	byte n;

	mapped = false;
#ifndef OLD_OPENER
	do
	:: n < IOS -> wait = wait || inside[n]; n++
	:: else -> break
	od;
	/* drain_work() */
	n = 0;
	do
	:: wait && n < IOS && !inside[n] -> n++
	:: !wait || n == IOS -> break
	od;
#endif
	write_iter();
	unfinished--
}

active proctype quiet_in_the_end() {
	timeout;
	assert(unfinished == 0);
	assert(!mapped || (map != NOWHERE && map_place == place && !moved))
}

init {
	byte n;

	atomic {
		do
		:: n < IOS ->
			if
			:: run io(n, true)
			:: run io(n, false)
			fi;
			n++
		:: else -> break
		od;
		n = 0;
		do
		:: n < WRITES -> run file_write(); n++
		:: else -> break
		od;
		n = 0;
		do
		:: n < OPENERS -> run opener(); n++
		:: else -> break
		od
	}
}
