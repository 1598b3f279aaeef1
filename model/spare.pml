/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts of kernel/spare.c as a model for spin: how one part of the file
 * loses its last spare block, gets others, is taken away and comes again, and
 * what a CPU keeps of it meanwhile. Each process names the functions that it
 * stands for. The lock is one process.
 *
 * What must hold, however the steps interleave:
 *  - No part is used after it is freed, or freed twice: use().
 *  - In the end each part counts its spare blocks, and is in the list or gone
 *    if it has none: counts().
 *
 * What the model leaves out: all parts but one, which can come a second time;
 * all blocks but one of it; memory order. -DOLD_x puts in a flaw that the code
 * must not get.
 */
#ifndef ADDS
#define ADDS 3		/* how often the block becomes spare, less one */
#endif
#ifndef USES
#define USES 3		/* what the CPU does */
#endif

#define TIMES 2		/* how often the part may be made */
#define NONE TIMES

byte turns = 1;			/* struct floop_spare: turns */
byte there = 0;			/* parts: which one is there */
bool listed[TIMES];		/* used_up */
byte nr[TIMES];			/* struct floop_spare_part */
bool bits[TIMES];
bool queued[TIMES];
byte made = 1;
bool leaves[TIMES];		/* kfree_rcu() is called */
bool gone[TIMES];
byte readers;			/* in an RCU read-side critical section */
byte awaited[TIMES];		/* by kfree_rcu() */
byte unfinished = 3;
hidden byte i;

inline rcu_read_lock(me) {
	atomic { readers = readers | me }
}

inline rcu_read_unlock(me) {
	d_step {
		readers = readers & ~me;
		i = 0;
		do
		:: i < TIMES ->
			awaited[i] = awaited[i] & ~me;
			gone[i] = gone[i] || (leaves[i] && !awaited[i]);
			i++
		:: else -> break
		od
	}
}

inline use(part) {
	assert(!gone[part])
}

/* floop_spare_lose(), floop_spare_used_up() */
inline lose(part, last) {
	atomic {
		use(part);
		nr[part]--;
		last = nr[part] == 0
	}
	if
	:: last ->
		turns++;
		atomic {
			use(part);
			last = !queued[part];
			queued[part] = true
		}
		if
		:: last -> atomic { assert(!listed[part]); listed[part] = true }
		:: else
		fi
	:: else
	fi
}

/* test_and_clear_bit() */
inline write(part, last) {
	atomic {
		use(part);
		last = bits[part];
		bits[part] = false
	}
	if
	:: last -> lose(part, last)
	:: else
	fi
}

/* take_used_up(), of one part */
inline take(part, out) {
	queued[part] = false;
	out = nr[part] == 0;
	if
	:: out -> atomic { out = !queued[part]; queued[part] = true }
	:: else
	fi;
	if
	:: out ->
#ifdef OLD_COUNTED_EARLY
		turns++;
#endif
		atomic { assert(there == part); there = NONE };
#if !defined(OLD_COUNTED_EARLY) && !defined(OLD_UNCOUNTED_END)
		turns++;
#endif
		d_step {
			assert(!leaves[part] && !gone[part]);
			leaves[part] = true;
			awaited[part] = readers;
			gone[part] = !readers
		}
	:: else
	fi
}

/* floop_spare_add() */
proctype adder() {
	bool mine[TIMES], flag;
	byte n, part;

	do
	:: n < ADDS ->
		d_step {
			mine[0] = listed[0];
			mine[1] = listed[1];
			listed[0] = false;
			listed[1] = false
		}
		if
		:: mine[0] -> take(0, flag)
		:: else
		fi;
		if
		:: mine[1] -> take(1, flag)
		:: else
		fi;
		n++;
		if
		:: n == ADDS -> break
		:: else
		fi;
		rcu_read_lock(1);
		atomic {
			if
			:: there == NONE && made < TIMES -> there = made; made++
			:: else
			fi;
			part = there
		}
		if
		:: part != NONE ->
			nr[part]++;
			atomic { flag = bits[part]; bits[part] = true }
			if
			:: flag -> lose(part, flag)
			:: else
			fi
		:: else
		fi;
		rcu_read_unlock(1)
	od;
	unfinished--
}

/* floop_spare_forget(): a write through the file system */
proctype file_write() {
	byte part;
	bool flag;

	rcu_read_lock(2);
	part = there;
	if
	:: part != NONE && nr[part] -> write(part, flag)
	:: else
	fi;
	rcu_read_unlock(2);
	unfinished--
}

/* cache_extent(), floop_map_cached_whole() */
proctype cpu() {
	byte part = NONE, found, turn, n;
	bool flag;

	do
	:: n < USES ->
		n++;
		rcu_read_lock(4);
		if
		:: turn = turns;
			part = there;
			/* floop_spare_clip() */
			if
			:: part != NONE && !nr[part] -> part = NONE
			:: else
			fi
		:: turn == turns && part != NONE -> write(part, flag)
		/* floop_spare_wrote_many() */
		:: turn == turns ->
			found = there;
			if
			:: found != NONE && nr[found] -> write(found, flag)
			:: else
			fi;
			part = found
		fi;
		rcu_read_unlock(4)
	:: n == USES -> break
	od;
	unfinished--
}

inline counts(part) {
	assert(nr[part] == bits[part]);
	assert(nr[part] || listed[part] || there != part)
}

active proctype quiet_in_the_end() {
	timeout;
	assert(unfinished == 0);
	counts(0);
	counts(1)
}

init {
	atomic {
		nr[0] = 1;
		bits[0] = true;
		run adder();
		run file_write();
		run cpu()
	}
}
