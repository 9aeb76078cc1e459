// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The device: one, `mrc0`, where a NIC agent responds in the network namespace of the process. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "verbs.h"

enum {
	GIDS = 4, /* of the only port; all are the same */
	ROCE_V2_SYSFS = 1,
	PHYSICAL_DISABLED = 3, /* of a port: its link is not up */
	PHYSICAL_LINK_UP = 5,
	/* An OUI that the IEEE gives to nobody, since 02 marks it as locally administered; 4d 52
	 * is "MR". */
	VENDOR = 0x024d52,
};

/* One device; which host it is of becomes known when the agent responds for the first time. */
static struct {
	struct ibv_device verbs;
	uint32_t host_index;
} the_device = {
    .verbs =
	{
	    .node_type = IBV_NODE_CA,
	    .transport_type = IBV_TRANSPORT_IB,
	    .name = "mrc0",
	    .dev_name = "uverbs0",
	    .dev_path = "/sys/class/infiniband_verbs/uverbs0",
	    .ibdev_path = "/sys/class/infiniband/mrc0",
	},
};
static int is_fork_initialized;

/* The transport that the program is to use, as its environment says; less than 0: none that is
 * known. */
static int transport_wanted(void)
{
	const char *name = getenv("MRC_TESTBED_TRANSPORT");

	if (!name || !strcmp(name, "mrc"))
		return MRC_APPLICATION_MRC;
	if (!strcmp(name, "rocev2"))
		return MRC_APPLICATION_ROCEV2;
	complain("MRC_TESTBED_TRANSPORT is '%s': mrc and rocev2 are accepted", name);
	return -1;
}

int device_is_ours(const struct ibv_context *context)
{
	return context->device == &the_device.verbs;
}

EXPORT struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list = calloc(2, sizeof(*list));
	struct agent_link *link;
	int error, transport;

	if (!list)
		return NULL;
	transport = transport_wanted();
	error = transport < 0 ? EINVAL : link_get(&link);
	if (!error) {
		the_device.host_index = link->hello.host_index;
		link_put(link);
	} else if (transport >= 0)
		complain("no NIC agent responds in this network namespace (%s): run the program by "
			 "mrc-testbed exec HOST --rdma -- PROGRAM",
			 strerror(error));
	list[0] = error ? NULL : &the_device.verbs;
	if (count)
		*count = !error;
	return list;
}

EXPORT void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

EXPORT int ibv_get_device_index(struct ibv_device *device __attribute__((unused)))
{
	return 0;
}

EXPORT __be64 ibv_get_device_guid(struct ibv_device *device __attribute__((unused)))
{
	return htobe64((uint64_t)VENDOR << 40 | 0xfffe000000 | the_device.host_index);
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		      size_t bytes)
{
	struct mrc_application_request request = {.verb = MRC_APPLICATION_QUERY_PORT};
	struct mrc_application_reply reply;
	struct ibv_port_attr all = {
	    .state = IBV_PORT_ACTIVE,
	    .max_mtu = IBV_MTU_4096,
	    .active_mtu = IBV_MTU_4096,
	    .gid_tbl_len = GIDS,
	    .max_msg_sz = 1U << 30,
	    .pkey_tbl_len = 1,
	    .active_width = 2,
	    .active_speed = 32,
	    .phys_state = PHYSICAL_LINK_UP,
	    .link_layer = IBV_LINK_LAYER_ETHERNET,
	};

	int error;

	if (port != 1)
		return EINVAL;
	error = link_call(device_of(context)->link, &request, &reply, NULL);
	if (error)
		return error;
	if (!reply.is_up) {
		all.state = IBV_PORT_DOWN;
		all.phys_state = PHYSICAL_DISABLED;
	}
	memset(attr, 0, bytes);
	memcpy(attr, &all, bytes < sizeof(all) ? bytes : sizeof(all));
	return 0;
}

/* By this name old programs call, whose struct ends before port_cap_flags2. */
EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port,
			  struct _compat_ibv_port_attr *attr)
{
	return query_port(context, port, (struct ibv_port_attr *)attr,
			  offsetof(struct ibv_port_attr, port_cap_flags2));
}

EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	const struct mrc_application_reply *hello = &device_of(context)->link->hello;

	memset(attr, 0, sizeof(*attr));
	strcpy(attr->fw_ver, "mrc-testbed");
	attr->node_guid = ibv_get_device_guid(context->device);
	attr->sys_image_guid = attr->node_guid;
	attr->max_mr_size = UINT32_MAX; /* the memory grows */
	attr->page_size_cap = PAGE_BYTES;
	attr->vendor_id = VENDOR;
	attr->vendor_part_id = 1;
	attr->max_qp = hello->qp_count;
	attr->max_qp_wr = QUEUE_MAX;
	attr->max_sge = SGE_MAX;
	attr->max_srq = SRQ_MAX;
	attr->max_srq_wr = QUEUE_MAX;
	attr->max_srq_sge = SGE_MAX;
	attr->max_cq = 1024;
	attr->max_cqe = CQE_MAX;
	attr->max_mr = MRC_REGION_MAX;
	attr->max_pd = 1024;
	attr->atomic_cap = IBV_ATOMIC_NONE;
	attr->max_pkeys = 1;
	attr->phys_port_cnt = 1;
	return 0;
}

static int query_device_ex(struct ibv_context *context,
			   const struct ibv_query_device_ex_input *input __attribute__((unused)),
			   struct ibv_device_attr_ex *attr, size_t bytes)
{
	memset(attr, 0, bytes);
	if (bytes >=
	    offsetof(struct ibv_device_attr_ex, phys_port_cnt_ex) + sizeof(attr->phys_port_cnt_ex))
		attr->phys_port_cnt_ex = 1;
	return ibv_query_device(context, &attr->orig_attr);
}

EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	const struct mrc_application_reply *hello = &device_of(context)->link->hello;

	if (port != 1 || index < 0 || index >= GIDS) {
		errno = EINVAL;
		return -1;
	}
	gid->global.subnet_prefix = htobe64(hello->inner_prefix);
	gid->global.interface_id = htobe64(hello->host_index + 1ULL);
	return 0;
}

EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
			     struct ibv_gid_entry *entry, uint32_t flags, size_t bytes)
{
	if (flags || bytes < sizeof(*entry) || port > 1 || index >= GIDS)
		return EINVAL;
	memset(entry, 0, bytes);
	entry->gid_index = index;
	entry->port_num = port;
	entry->gid_type = IBV_GID_TYPE_ROCE_V2;
	return ibv_query_gid(context, port, index, &entry->gid) ? errno : 0;
}

EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
				    size_t count, uint32_t flags, size_t bytes)
{
	uint32_t index;

	if (flags || bytes < sizeof(*entries) || count < GIDS)
		return -EINVAL;
	for (index = 0; index < GIDS; index++)
		_ibv_query_gid_ex(context, 1, index,
				  (struct ibv_gid_entry *)((char *)entries + index * bytes), 0,
				  bytes);
	return index;
}

/* libibverbs keeps it to itself; ibv_devinfo calls it. */
EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index,
			      int *type);
int ibv_query_gid_type(struct ibv_context *context __attribute__((unused)), uint8_t port,
		       unsigned int index, int *type)
{
	if (port != 1 || index >= GIDS) {
		errno = EINVAL;
		return -1;
	}
	*type = ROCE_V2_SYSFS;
	return 0;
}

EXPORT int ibv_query_pkey(struct ibv_context *context __attribute__((unused)), uint8_t port,
			  int index, __be16 *pkey)
{
	if (port != 1 || index) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htobe16(0xffff);
	return 0;
}

EXPORT int ibv_get_pkey_index(struct ibv_context *context __attribute__((unused)), uint8_t port,
			      __be16 pkey)
{
	return port == 1 && pkey == htobe16(0xffff) ? 0 : -1;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *found)
{
	struct device_context *device = calloc(1, sizeof(*device));
	struct ibv_context *context;
	int error, transport;

	if (!device)
		return NULL;
	transport = transport_wanted();
	error = transport < 0 ? EINVAL : link_get(&device->link);
	if (error) {
		free(device);
		errno = error;
		return NULL;
	}
	error = events_open(device);
	if (error) {
		link_put(device->link);
		free(device);
		errno = error;
		return NULL;
	}
	device->transport = transport;
	pthread_mutex_init(&device->lock, NULL);
	device->verbs.sz = sizeof(device->verbs);
	device->verbs.query_port = query_port;
	device->verbs.query_device_ex = query_device_ex;
	context = &device->verbs.context;
	context->device = found;
	context->abi_compat = __VERBS_ABI_IS_EXTENDED;
	context->num_comp_vectors = 1;
	context->cmd_fd = -1;
	pthread_mutex_init(&context->mutex, NULL);
	context->ops.poll_cq = poll_cq;
	context->ops.req_notify_cq = req_notify_cq;
	context->ops.post_send = post_send;
	context->ops.post_recv = post_recv;
	context->ops.post_srq_recv = post_srq_recv;
	return context;
}

EXPORT int ibv_close_device(struct ibv_context *context)
{
	struct device_context *device = device_of(context);

	if (device->queue_pairs) {
		errno = EBUSY;
		return -1;
	}
	link_put(device->link);
	events_close(device);
	free(device);
	return 0;
}

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct protection_domain *domain = calloc(1, sizeof(*domain));

	if (!domain)
		return NULL;
	domain->pd.context = context;
	domain->number =
	    __atomic_add_fetch(&device_of(context)->link->domains, 1, __ATOMIC_RELAXED);
	return &domain->pd;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	free(container_of(pd, struct protection_domain, pd));
	return 0;
}

/* A child of fork() shares what was registered before: it must not touch it. */
EXPORT int ibv_fork_init(void)
{
	is_fork_initialized = 1;
	return 0;
}

EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return is_fork_initialized ? IBV_FORK_ENABLED : IBV_FORK_DISABLED;
}
