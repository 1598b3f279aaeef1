/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bitmaps that are changed a word at a time, while others read them.
 */
#ifndef FLOOP_MASK_H
#define FLOOP_MASK_H

#include <linux/bits.h>
#include <linux/math.h>
#include <linux/minmax.h>

/**
 * floop_take_mask() - the bits of a range that are in the word of its first one
 * @first: the first bit; set to the first one of the next word, at most @end
 * @end: the first bit behind the range, which isn't empty
 *
 * Context: Any.
 * Return: a mask for the word.
 */
static inline unsigned long floop_take_mask(unsigned long *first,
					    unsigned long end)
{
	unsigned long begin = *first;

	*first = min(end, round_down(begin, BITS_PER_LONG) + BITS_PER_LONG);
	return GENMASK((*first - 1) % BITS_PER_LONG, begin % BITS_PER_LONG);
}

#endif /* FLOOP_MASK_H */
