// SPDX-License-Identifier: GPL-2.0
/*
 * Defines the tracepoints of trace.h.
 */
#include "image.h"

#define CREATE_TRACE_POINTS
#include "trace.h"
