/* SPDX-License-Identifier: MIT
 *
 * The part of generic netlink that taskstats needs.
 */
#include "source/process/taskstats_socket.h"

#include <errno.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	RECEIVE_BYTES = 8 << 20, /* records between two reads */
};

/* One request with one attribute. Returns 0 or -errno. */
static int request_send(
	struct taskstats_socket *s, uint16_t type, uint8_t cmd, uint16_t attr, const void *value, size_t size)
{
	struct {
		struct nlmsghdr head;
		struct genlmsghdr genl;
		struct nlattr attr;
		char value[64];
	} request = {
		.head = { .nlmsg_type = type,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
			.nlmsg_seq = ++s->seq },
		.genl = { .cmd = cmd, .version = 1 },
		.attr = { .nla_len = (uint16_t) (NLA_HDRLEN + size), .nla_type = attr },
	};
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };

	if (size > sizeof(request.value))
		return -EINVAL;
	memcpy(request.value, value, size);
	request.head.nlmsg_len = (uint32_t) (NLMSG_HDRLEN + GENL_HDRLEN + NLA_HDRLEN + NLA_ALIGN(size));
	if (sendto(s->fd, &request, request.head.nlmsg_len, 0, (struct sockaddr *) &kernel, sizeof(kernel)) <
		0)
		return -errno;
	return 0;
}

/* Receives one datagram from the kernel into s->buf. Returns its size, 0 if it is from another
 * sender, or -errno. */
static ssize_t message_receive(struct taskstats_socket *s)
{
	struct sockaddr_nl from = { 0 };
	socklen_t len = sizeof(from);
	ssize_t n;

	do
		n = recvfrom(s->fd, s->buf, sizeof(s->buf), 0, (struct sockaddr *) &from, &len);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return from.nl_pid == 0 ? n : 0;
}

/* Reads the answer to the last request: the kernel queues it before the request returns. take is
 * called for each message. Returns the result in the acknowledgement. */
static int answer_read(struct taskstats_socket *s,
	int (*take)(struct taskstats_socket *s, const char *text, size_t len, void *ret), void *ret)
{
	int r = -ENOMSG;
	ssize_t n;

	while ((n = message_receive(s)) >= 0) {
		const struct nlmsghdr *head = (const void *) s->buf;

		if ((size_t) n < sizeof(*head) || head->nlmsg_len > (size_t) n || head->nlmsg_seq != s->seq)
			continue;
		if (head->nlmsg_type == NLMSG_ERROR) {
			const struct nlmsgerr *error = (const void *) (s->buf + NLMSG_HDRLEN);

			if ((size_t) n < NLMSG_HDRLEN + sizeof(error->error))
				return -EBADMSG;
			return error->error < 0 ? error->error : r == -ENOMSG ? 0
									      : r;
		}
		if (take && head->nlmsg_len >= NLMSG_HDRLEN + GENL_HDRLEN)
			r = take(s, s->buf + NLMSG_HDRLEN + GENL_HDRLEN,
				head->nlmsg_len - NLMSG_HDRLEN - GENL_HDRLEN, ret);
	}
	return (int) n;
}

static int family_parse(struct taskstats_socket *s, const char *text, size_t len, void *ret)
{
	size_t size;
	const char *id = taskstats_attribute(text, len, CTRL_ATTR_FAMILY_ID, &size);

	(void) ret;
	if (!id || size < sizeof(s->family))
		return -EBADMSG;
	memcpy(&s->family, id, sizeof(s->family));
	return 0;
}

/* The kernel's answer about this thread shows the layout of its records. */
static int layout_parse(struct taskstats_socket *s, const char *text, size_t len, void *ret)
{
	(void) ret;
	return taskstats_layout_find(text, len, (uint32_t) gettid(), (uint32_t) getpid(), &s->layout);
}

static int registered(struct taskstats_socket *s, const char *cpus)
{
	int r = request_send(s, s->family, TASKSTATS_GET, TASKSTATS_REGISTER_CPUMASK, cpus, strlen(cpus) + 1);

	return r < 0 ? r : answer_read(s, NULL, NULL);
}

/* The kernel rejects a whole mask because of one impossible CPU. */
static int register_all(struct taskstats_socket *s)
{
	long n = sysconf(_SC_NPROCESSORS_CONF);
	char cpus[32];
	int r, any = -EINVAL;

	(void) snprintf(cpus, sizeof(cpus), "0-%ld", n > 0 ? n - 1 : 0);
	r = registered(s, cpus);
	if (r != -EINVAL)
		return r;
	for (long cpu = 0; cpu < n; cpu++) {
		(void) snprintf(cpus, sizeof(cpus), "%ld", cpu);
		if (registered(s, cpus) == 0)
			any = 0;
	}
	return any;
}

static int handshake(struct taskstats_socket *s)
{
	static const char name[] = "TASKSTATS";
	uint32_t tid = (uint32_t) gettid();
	int r = request_send(s, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, name, sizeof(name));

	if (r == 0)
		r = answer_read(s, family_parse, NULL);
	if (r == 0)
		r = request_send(s, s->family, TASKSTATS_GET, TASKSTATS_ASK_PID, &tid, sizeof(tid));
	if (r == 0)
		r = answer_read(s, layout_parse, NULL);
	return r == 0 ? register_all(s) : r;
}

static int bound(struct taskstats_socket *s)
{
	struct sockaddr_nl own = { .nl_family = AF_NETLINK };
	int bytes = RECEIVE_BYTES;

	s->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_GENERIC);
	if (s->fd < 0)
		return -errno;
	if (setsockopt(s->fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) < 0)
		(void) setsockopt(s->fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	return bind(s->fd, (struct sockaddr *) &own, sizeof(own)) < 0 ? -errno : 0;
}

const char *taskstats_socket_why(int error)
{
	switch (error) {
	case -EPERM:
	case -EACCES:
		return "they need CAP_NET_ADMIN: run as root, or setcap cap_net_admin+ep";
	case -ENOENT:
	case -EPROTONOSUPPORT:
		return "this kernel has no taskstats (CONFIG_TASKSTATS)";
	case -EINVAL:
		return "they exist only in the initial user and pid namespace, not in a container";
	case -EPROTO:
		return "this kernel's records have an unknown layout";
	default:
		return strerror(-error);
	}
}

int taskstats_socket_open(struct taskstats_socket *s)
{
	const int r = bound(s);

	return r == 0 ? handshake(s) : r;
}

/* The kernel removes a closed listener by itself. */
void taskstats_socket_close(struct taskstats_socket *s)
{
	if (s->fd >= 0)
		(void) close(s->fd);
}

int taskstats_socket_next(struct taskstats_socket *s, struct taskstats_record *ret)
{
	const ssize_t n = message_receive(s);
	const struct nlmsghdr *head = (const void *) s->buf;

	if (n < 0)
		return (int) n;
	if ((size_t) n < NLMSG_HDRLEN + GENL_HDRLEN || head->nlmsg_len > (size_t) n ||
		head->nlmsg_type != s->family || head->nlmsg_len < NLMSG_HDRLEN + GENL_HDRLEN)
		return 0;
	return taskstats_record_parse(s->buf + NLMSG_HDRLEN + GENL_HDRLEN,
		       head->nlmsg_len - NLMSG_HDRLEN - GENL_HDRLEN, &s->layout, ret) == 0;
}
