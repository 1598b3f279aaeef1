// SPDX-License-Identifier: GPL-2.0
/*
 * Where the tracepoints live.
 */
#include "image.h"

#define CREATE_TRACE_POINTS
#include "trace.h"
