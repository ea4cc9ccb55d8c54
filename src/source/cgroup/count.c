/* SPDX-License-Identifier: MIT
 *
 * The number of tasks in a v1 group. Its lists omit processes of pid namespaces that this one
 * cannot see, where v2 writes 0. cgroupstats counts all of them (include/uapi/linux/cgroupstats.h,
 * kernel/taskstats.c) and needs no privileges.
 */
#include <errno.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "source/cgroup/path.h"
#include "source/process/taskstats_record.h"

enum {
	COUNT_GET = 4,   /* command */
	COUNT_FD = 1,    /* attribute of the command */
	COUNT_STATS = 1, /* attribute of the answer: five u64, tasks that sleep, run, are stopped,
	                  * wait uninterruptibly, wait for I/O */
	COUNT_STATES = 5,
};

struct answer {
	_Alignas(struct nlmsghdr) char bytes[4096];
};

/* Sends one request with one attribute. Returns the size of the answer behind its generic header,
 * *ret_text, or -errno. */
static ssize_t send_request(int fd, const struct genlmsghdr *genl, uint16_t type, struct nlattr attr,
	const void *value, struct answer *answer, const char **ret_text)
{
	struct {
		struct nlmsghdr head;
		struct genlmsghdr genl;
		struct nlattr attr;
		char value[16];
	} request = {
		.head = { .nlmsg_len = sizeof(request), .nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST },
		.genl = *genl,
		.attr = attr,
	};
	const struct nlmsghdr *head = (const void *) answer->bytes;
	int32_t error;
	ssize_t n;

	memcpy(request.value, value, attr.nla_len - NLA_HDRLEN);
	request.head.nlmsg_len = (uint32_t) (NLMSG_HDRLEN + GENL_HDRLEN + NLA_ALIGN(attr.nla_len));
	if (send(fd, &request, request.head.nlmsg_len, 0) < 0)
		return -errno;
	/* the answer is queued before the request returns */
	n = recv(fd, answer->bytes, sizeof(answer->bytes), MSG_DONTWAIT);
	if (n < 0)
		return -errno;
	if ((size_t) n < NLMSG_HDRLEN + GENL_HDRLEN || head->nlmsg_len > (size_t) n ||
		head->nlmsg_len < NLMSG_HDRLEN + GENL_HDRLEN)
		return -EBADMSG;
	*ret_text = answer->bytes + NLMSG_HDRLEN + GENL_HDRLEN;
	if (head->nlmsg_type != NLMSG_ERROR)
		return (ssize_t) (head->nlmsg_len - NLMSG_HDRLEN - GENL_HDRLEN);
	memcpy(&error, answer->bytes + NLMSG_HDRLEN, sizeof(error));
	return error < 0 ? error : -EBADMSG;
}

static int family_of(int fd, struct answer *answer, uint16_t *ret)
{
	static const char name[] = "TASKSTATS";
	const char *text, *id;
	size_t size;
	ssize_t n = send_request(fd, &(struct genlmsghdr) { .cmd = CTRL_CMD_GETFAMILY, .version = 1 },
		GENL_ID_CTRL, (struct nlattr) { NLA_HDRLEN + sizeof(name), CTRL_ATTR_FAMILY_NAME }, name,
		answer, &text);

	if (n < 0)
		return (int) n;
	id = taskstats_attribute(text, (size_t) n, CTRL_ATTR_FAMILY_ID, &size);
	if (!id || size < sizeof(*ret))
		return -EBADMSG;
	memcpy(ret, id, sizeof(*ret));
	return 0;
}

ssize_t cgroup_count(int dir)
{
	autoclose int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	const uint32_t group = (uint32_t) dir;
	uint64_t states[COUNT_STATES], sum = 0;
	struct answer answer;
	const char *text, *stats;
	uint16_t family = 0;
	size_t size;
	ssize_t n;

	if (fd < 0 || connect(fd, (struct sockaddr *) &kernel, sizeof(kernel)) < 0)
		return -errno;
	n = family_of(fd, &answer, &family);
	if (n == 0)
		n = send_request(fd, &(struct genlmsghdr) { .cmd = COUNT_GET, .version = 1 }, family,
			(struct nlattr) { NLA_HDRLEN + sizeof(group), COUNT_FD }, &group, &answer, &text);
	if (n < 0)
		return n;
	stats = taskstats_attribute(text, (size_t) n, COUNT_STATS, &size);
	if (!stats || size < sizeof(states))
		return -EBADMSG;
	memcpy(states, stats, sizeof(states));
	for (size_t i = 0; i < COUNT_STATES; i++)
		sum += states[i];
	return (ssize_t) sum;
}
