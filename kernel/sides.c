// SPDX-License-Identifier: GPL-2.0
/*
 * What begins does so on one of two sides. When all that began on the other
 * side has ended, the sides can change. After two changes all from before has
 * ended.
 */
#include "sides.h"

/**
 * floop_sides_init() - prepare two empty sides
 * @sides: the sides
 *
 * Context: Any.
 */
void floop_sides_init(struct floop_sides *sides)
{
	spin_lock_init(&sides->lock);
}

/**
 * floop_sides_begin() - something begins
 * @sides: the sides
 *
 * Context: Process context. Doesn't sleep. What follows isn't moved before it.
 * Return: the side, for floop_sides_end().
 */
int floop_sides_begin(struct floop_sides *sides)
{
	int side;

	spin_lock(&sides->lock);
	side = sides->turns & 1;
	atomic_inc(&sides->inside[side]);
	spin_unlock(&sides->lock);
	/* The lock keeps what follows inside of it, no more. */
	smp_mb();
	return side;
}

/**
 * floop_sides_end() - it has ended
 * @sides: the sides
 * @side: from floop_sides_begin()
 *
 * Context: Any, interrupts included. What precedes isn't moved behind it.
 */
void floop_sides_end(struct floop_sides *sides, int side)
{
	/* What precedes has ended, too. */
	smp_mb__before_atomic();
	atomic_dec(&sides->inside[side]);
}

/**
 * floop_sides_look() - see what has begun
 * @sides: the sides
 *
 * Context: Process context. Doesn't sleep.
 * Return: what floop_sides_have_ended() asks for.
 */
unsigned long floop_sides_look(struct floop_sides *sides)
{
	unsigned long look;

	spin_lock(&sides->lock);
	look = sides->turns + 2;
	spin_unlock(&sides->lock);
	return look;
}

/**
 * floop_sides_have_ended() - has all ended that had begun then?
 * @sides: the sides
 * @look: when: from floop_sides_look()
 *
 * Context: Process context. Doesn't sleep.
 * Return: true if it has.
 */
bool floop_sides_have_ended(struct floop_sides *sides, unsigned long look)
{
	bool ended;

	spin_lock(&sides->lock);
	while ((long)(sides->turns - look) < 0 &&
	       !atomic_read_acquire(&sides->inside[~sides->turns & 1]))
		sides->turns++;
	ended = (long)(sides->turns - look) >= 0;
	spin_unlock(&sides->lock);
	return ended;
}
