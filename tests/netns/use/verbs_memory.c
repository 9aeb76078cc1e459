// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Operations on registered memory and completion channels, within one process:
 * `verbs_memory CASE`. Prints what is wrong and ends with 1; ends with 0 where all is as verbs has
 * it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>
#include "verbs_loop.h"

enum { BYTES = 1 << 20, PAGE = 4096, EVENT_LIMIT_MS = 120000 };

static struct ibv_pd *pd;

static char *new_pages(size_t bytes)
{
	char *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	need(pages != MAP_FAILED, "mmap");
	return pages;
}

static struct ibv_mr *registered(void *memory, size_t bytes)
{
	struct ibv_mr *mr =
	    ibv_reg_mr(pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	need(mr != NULL, "ibv_reg_mr");
	return mr;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void deregister_keeps_bytes(void)
{
	char *memory = new_pages(BYTES);
	struct ibv_mr *mr;

	memset(memory, 7, BYTES);
	mr = registered(memory, BYTES);
	memory[5] = 8;
	need(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	need(memory[0] == 7 && memory[5] == 8 && memory[BYTES - 1] == 7, "bytes of a region");
}

/* A file in the place of a region that was unmapped. */
static void file_in_its_place(void)
{
	char *memory = new_pages(BYTES), *mapped, found[6] = {0};
	struct ibv_mr *mr = registered(memory, BYTES);
	int file = memfd_create("file", 0);

	need(!munmap(memory, BYTES) && !ftruncate(file, BYTES), "munmap");
	mapped = mmap(memory, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
	need(mapped == memory, "mmap of a file");
	strcpy(mapped, "before");
	need(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	strcpy(mapped, "after");
	need(pread(file, found, 5, 0) == 5 && !strcmp(found, "after"), "what the file holds");
}

static void page_unmapped(void)
{
	char *memory = new_pages(BYTES);
	struct ibv_mr *mr;

	memset(memory, 7, BYTES);
	mr = registered(memory, BYTES);
	need(!munmap(memory + BYTES / 2, PAGE), "munmap");
	need(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	need(memory[0] == 7 && memory[BYTES / 2 - 1] == 7 && memory[BYTES / 2 + PAGE] == 7,
	     "bytes around it");
	need(madvise(memory + BYTES / 2, PAGE, MADV_NORMAL) && errno == ENOMEM, "the hole stays");
}

static void all_unmapped(void)
{
	char *memory = new_pages(BYTES);
	struct ibv_mr *mr = registered(memory, BYTES);

	need(!munmap(memory, BYTES), "munmap");
	need(!ibv_dereg_mr(mr), "ibv_dereg_mr");
}

static void moved(void)
{
	char *memory = new_pages(BYTES), *elsewhere = new_pages(BYTES);
	struct ibv_mr *mr, *other;

	memset(memory, 7, BYTES);
	mr = registered(memory, BYTES);
	memory = mremap(memory, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere);
	need(memory == elsewhere, "mremap");
	need(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	other = registered(new_pages(BYTES), BYTES); /* where the first one was, in the NIC */
	memset(other->addr, 9, BYTES);
	need(memory[0] == 7 && memory[BYTES - 1] == 7, "bytes that were moved");
	need(!ibv_dereg_mr(other), "ibv_dereg_mr of the other");
}

static void freed(void)
{
	char *memory = malloc(BYTES), *larger;
	struct ibv_mr *mr = registered(memory, BYTES);

	free(memory);
	need(!ibv_dereg_mr(mr), "ibv_dereg_mr after free");
	memory = malloc(BYTES);
	memset(memory, 7, BYTES);
	mr = registered(memory, BYTES);
	larger = realloc(memory, 4 * BYTES);
	need(larger && larger[0] == 7 && larger[BYTES - 1] == 7, "realloc");
	need(!ibv_dereg_mr(mr), "ibv_dereg_mr after realloc");
	need(larger[0] == 7 && larger[BYTES - 1] == 7, "bytes after realloc");
	free(larger);
}

static void given_up(void)
{
	char *memory = new_pages(BYTES);
	struct ibv_mr *mr;

	memset(memory, 7, BYTES);
	mr = registered(memory + PAGE, BYTES - 2 * PAGE);
	need(!madvise(memory, BYTES, MADV_FREE), "MADV_FREE");
	memset(memory, 7, BYTES);
	need(!madvise(memory, BYTES, MADV_DONTNEED), "MADV_DONTNEED");
	for (int at = 0; at < BYTES; at++)
		need(!memory[at], "zeros");
	memory[PAGE] = 9;
	need(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	need(memory[PAGE] == 9 && !memory[PAGE + 1], "bytes at the end");
	need(!madvise(memory, BYTES, MADV_DONTNEED) && !memory[PAGE], "as anybody's");
	need(madvise(memory + 1, PAGE, MADV_DONTNEED) && errno == EINVAL,
	     "an address that is no page's");
}

/* ---- completions ----------------------------------------------------------------------------- */

static struct ibv_qp *qp_of(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
	    .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {16, 16, 1, 1, 0}};

	return new_qp(pd, init, IBV_ACCESS_REMOTE_WRITE);
}

static void connect_qp(struct ibv_qp *qp, struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = {.timeout = 14, .retry_cnt = 7, .rnr_retry = 7};

	connect_to(qp, peer, attr);
}

static int post(struct ibv_qp *qp, struct ibv_mr *mr, enum ibv_wr_opcode opcode, int flags)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr, 8, mr->lkey};
	struct ibv_send_wr *bad, wr = {
				     .sg_list = &sge,
				     .num_sge = 1,
				     .opcode = opcode,
				     .send_flags = flags,
				     .wr.rdma = {(uintptr_t)mr->addr + PAGE, mr->rkey},
				 };

	return ibv_post_send(qp, &wr, &bad);
}

/* A WRITE of the first bytes of a region to its second page. */
static void write_within(struct ibv_mr *mr)
{
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_qp *ends[2] = {qp_of(cq), qp_of(cq)};

	for (int i = 0; i < 2; i++)
		connect_qp(ends[i], ends[!i]);
	need(!post(ends[0], mr, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED), "post");
	need(complete(cq).status == IBV_WC_SUCCESS, "completion");
	for (int i = 0; i < 2; i++)
		need(!ibv_destroy_qp(ends[i]), "ibv_destroy_qp");
}

/* New memory at the address of a region that is still registered is another region's. */
static void registered_again(void)
{
	char *memory = new_pages(BYTES);
	struct ibv_mr *old = registered(memory, BYTES), *mr;

	need(!munmap(memory, BYTES), "munmap");
	need(mmap(memory, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		  -1, 0) == memory,
	     "mmap");
	memset(memory, 7, BYTES);
	mr = registered(memory, BYTES);
	memory[0] = 6;
	write_within(mr);
	need(memory[PAGE] == 6, "what the NIC wrote");
	memory[0] = 7;
	need(!ibv_dereg_mr(old), "ibv_dereg_mr of the old one");
	need(memory[0] == 7 && memory[BYTES - 1] == 7, "bytes of the new one");
	memory[0] = 8;
	need(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	need(memory[0] == 8 && memory[BYTES - 1] == 7, "bytes at the end");
}

static void await_readable(int descriptor)
{
	struct pollfd poll_for = {.fd = descriptor, .events = POLLIN};

	need(poll(&poll_for, 1, EVENT_LIMIT_MS) == 1, "an event");
}

static int is_readable(int descriptor)
{
	struct pollfd poll_for = {.fd = descriptor, .events = POLLIN};

	return poll(&poll_for, 1, 0) == 1;
}

/*
 * A CQ armed before its QPs exist, by an event loop whose channel never blocks: each time that it
 * is readable it has an event, also where requests without a completion were reported. The CQ is
 * armed, polled, and waited for.
 */
static void event_loop(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, channel, 0), *found;
	struct ibv_mr *mr = registered(new_pages(2 * PAGE), 2 * PAGE);
	struct ibv_qp *ends[2];
	int completions = 0;
	struct ibv_wc wc;
	void *unused;

	need(!fcntl(channel->fd, F_SETFL, O_NONBLOCK), "O_NONBLOCK");
	need(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
	for (int i = 0; i < 2; i++)
		ends[i] = qp_of(cq);
	for (int i = 0; i < 2; i++)
		connect_qp(ends[i], ends[!i]);
	need(ibv_get_cq_event(channel, &found, &unused) && errno == EAGAIN, "no event yet");
	for (int round = 0; round < 50; round++) {
		need(!post(ends[0], mr, IBV_WR_RDMA_WRITE, 0), "post without a completion");
		need(!post(ends[round % 2], mr, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED), "post");
		while (completions <= round) {
			await_readable(channel->fd);
			while (is_readable(channel->fd)) {
				need(!ibv_get_cq_event(channel, &found, &unused) && found == cq,
				     "a readable channel has an event");
				ibv_ack_cq_events(found, 1);
			}
			need(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
			while (ibv_poll_cq(cq, 1, &wc) == 1) {
				need(wc.status == IBV_WC_SUCCESS, "completion");
				completions++;
			}
		}
	}
}

static void refused_operations(void)
{
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_mr *mr = registered(new_pages(2 * PAGE), 2 * PAGE);
	struct ibv_qp *qp = qp_of(cq);

	connect_qp(qp, qp);
	for (int i = 0; i < 2; i++) {
		need(post(qp, mr, IBV_WR_RDMA_READ, 0) == EOPNOTSUPP, "READ");
		need(post(qp, mr, IBV_WR_ATOMIC_FETCH_AND_ADD, 0) == EOPNOTSUPP, "ATOMIC");
	}
}

int main(int count, char **arguments)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
	    {"deregister_keeps_bytes", deregister_keeps_bytes},
	    {"file_in_its_place", file_in_its_place},
	    {"page_unmapped", page_unmapped},
	    {"all_unmapped", all_unmapped},
	    {"moved", moved},
	    {"freed", freed},
	    {"registered_again", registered_again},
	    {"given_up", given_up},
	    {"event_loop", event_loop},
	    {"refused_operations", refused_operations},
	};

	pd = open_nic();
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (count > 1 && strcmp(arguments[1], cases[i].name))
			continue;
		printf("%s\n", cases[i].name);
		fflush(stdout);
		cases[i].run();
	}
	return 0;
}
