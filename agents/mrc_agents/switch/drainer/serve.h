/* SPDX-License-Identifier: Apache-2.0 */
/* The drainer's work: sending what is due, and waiting for it in one of three ways. */
#ifndef DRAINER_SERVE_H
#define DRAINER_SERVE_H

#include <signal.h>

#include <bpf/libbpf.h>

#include "pins.h"

/* Set by the handler of signals that end the process; signals are blocked but while it waits. */
extern volatile sig_atomic_t is_stopping;

/*
 * Serves the lab until a signal comes or its pins are removed. Returns 0, or the errno with which
 * the kernel refused to run the program.
 */
int serve(struct pins *pins, struct ring_buffer *wake);

#endif
