// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Memory of the NIC for mailboxes, for what is staged, and for lists of pages. */
#include <errno.h>
#include "stretch.h"

enum { PAGE_MASK = PAGE_BYTES - 1 };

static struct own_memory *owns; /* under pages_changing */

/* Allocates whole pages of the NIC and maps them; an errno value. */
int own_allocate(struct own_memory *own, struct agent_link *link, size_t length)
{
	int error;

	length = (length + PAGE_MASK) & ~(size_t)PAGE_MASK;
	error = pages_allocate(link, length, MRC_APPLICATION_ANYWHERE, &own->offset);
	if (error)
		return error;
	own->bytes = pages_map(link, length, own->offset);
	if (!own->bytes) {
		error = errno;
		pages_free(link, own->offset);
		return error;
	}
	own->link = link;
	own->length = length;
	pthread_mutex_lock(&pages_changing);
	own->next = owns;
	owns = own;
	pthread_mutex_unlock(&pages_changing);
	return 0;
}

/* Frees the pages, if there are any. */
void own_free(struct own_memory *own)
{
	struct own_memory **each;

	if (!own->bytes)
		return;
	pthread_mutex_lock(&pages_changing);
	for (each = &owns; *each != own;)
		each = &(*each)->next;
	*each = own->next;
	unmap_memory(own->bytes, own->length);
	pthread_mutex_unlock(&pages_changing);
	pages_free(own->link, own->offset);
	own->bytes = NULL;
}

/* Bytes from the start of a mapping on that are the library's own or work rings; 0: none. */
size_t own_bytes(const struct mapping *mapping)
{
	const struct own_memory *own = owns;

	while (own && mapping->start - (uintptr_t)own->bytes >= own->length)
		own = own->next;
	if (own)
		return (uintptr_t)own->bytes + own->length - mapping->start;
	return link_has_ring_at(mapping->start) ? mapping->bytes : 0;
}
