/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The guard's rules, each of which a debug build (FLOOP_DEBUG=1) can be told to
 * break: a test that doesn't notice proves nothing. Otherwise they hold, and
 * cost nothing.
 */
#ifndef FLOOP_RULES_H
#define FLOOP_RULES_H

/**
 * enum floop_rule - what the guard never fails to do
 * @FLOOP_RULE_LEASE: nothing is mapped without a lease
 * @FLOOP_RULE_BREAK: the map is given up when the lease is broken
 * @FLOOP_RULE_DRAIN: who broke it waits for mapped I/O in flight
 * @FLOOP_RULE_CLEAR: nothing of the map outlives its epoch
 * @FLOOP_RULE_EPOCH: what was looked up goes into the map in the same epoch only
 * @FLOOP_RULE_DURABLE: what is not durable is not mapped
 * @FLOOP_RULE_CHANGES: our own changes wait for mapped I/O, and unmap
 * @FLOOP_RULE_FREEZE: a mapped write keeps the file system from being frozen
 * @FLOOP_RULE_CACHE: the page cache holds nothing that mapped I/O went past
 * @FLOOP_RULE_LAYOUT: on xfs, a read-only image's blocks are not exchanged
 * @FLOOP_RULE_FLUSH: a flush makes durable what the file system has written
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
};

#ifdef FLOOP_DEBUG
extern unsigned long floop_rules_broken;

static inline bool floop_rule_holds(enum floop_rule rule)
{
	return !(READ_ONCE(floop_rules_broken) & BIT(rule));
}
#else
static inline bool floop_rule_holds(enum floop_rule rule)
{
	return true;
}
#endif

#endif /* FLOOP_RULES_H */
