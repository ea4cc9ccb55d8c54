/* SPDX-License-Identifier: MIT
 *
 * The Kubernetes identity of a process, from texts as nodes have them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "serve/pods.h"

#define POD         "a1b2c3d4-1111-4222-8333-0123456789ab"
#define POD_SYSTEMD "a1b2c3d4_1111_4222_8333_0123456789ab"
#define CONTAINER   "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void paths_of_cgroups(void **state)
{
	static const struct {
		const char *path;
		bool is_pod, has_container;
	} rows[] = {
		{ "/kubepods/burstable/pod" POD "/" CONTAINER, true, true },
		{ "/kubepods/pod" POD, true, false },
		{ "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" POD_SYSTEMD
		  ".slice/cri-containerd-" CONTAINER ".scope\n",
			true, true },
		{ "/kubepods.slice/kubepods-pod" POD_SYSTEMD ".slice/crio-" CONTAINER ".scope", true, true },
		{ "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
		  "kubelet-kubepods-besteffort-pod" POD_SYSTEMD ".slice/cri-containerd-" CONTAINER ".scope",
			true, true },
		{ "/docker/" CONTAINER, false, false },
		{ "/machine.slice/libpod-" CONTAINER ".scope", false, false },
		{ "/kubepods/burstable/podnot-a-uid", false, false },
		{ "/kubepods", false, false },
		{ "/slurm/uid_1000/job_12", false, false },
		{ "", false, false },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pod pod = { .uid = "" };

		assert_int_equal(pod_of_cgroup(rows[i].path, &pod), rows[i].is_pod);
		assert_string_equal(pod.uid, rows[i].is_pod ? POD : "");
		assert_string_equal(pod.container, rows[i].has_container ? CONTAINER : "");
	}
}

/* A container has its pod's file at /etc/hosts; the node has those of all pods, elsewhere. */
static void mounts(void **state)
{
	static const char inside[] =
		"700 690 0:50 / / rw - overlay overlay rw\n"
		"701 700 8:1 /var/lib/kubelet/pods/" POD "/etc-hosts /etc/hosts rw,relatime - ext4 /dev/sda1 rw\n",
			  node[] = "80 20 0:60 / /var/lib/kubelet/pods/" POD
				   "/volumes/kubernetes.io~projected/x rw - tmpfs tmpfs rw\n",
			  docker[] = "701 700 8:1 /var/lib/docker/containers/" CONTAINER
				     "/hosts /etc/hosts rw - ext4 /dev/sda1 rw\n";
	struct pod pod = { .uid = "" };

	(void) state;
	assert_false(pod_of_mountinfo(node, &pod));
	assert_false(pod_of_mountinfo(docker, &pod));
	assert_false(pod_of_mountinfo("/etc-hosts /etc/hosts ", &pod));
	assert_string_equal(pod.uid, "");
	assert_true(pod_of_mountinfo(inside, &pod));
	assert_string_equal(pod.uid, POD);
}

static void environments(void **state)
{
	static const char downward[] = "PATH=/bin\0POD_NAME=train-0\0POD_NAMESPACE=ml\0HOSTNAME=other\0",
			  host[] = "HOSTNAME=train-0\0PATH=/bin\0", cut[] = "POD_NAME";
	struct pod pod = { .uid = POD }, named = { .uid = POD }, none = { .uid = "" };

	(void) state;
	assert_true(pod_of_environment(downward, sizeof(downward) - 1, &pod));
	assert_string_equal(pod.name, "train-0");
	assert_string_equal(pod.namespace, "ml");
	assert_true(pod_of_environment(host, sizeof(host) - 1, &named));
	assert_string_equal(named.name, "train-0");
	assert_string_equal(named.namespace, "");
	assert_false(pod_of_environment(host, sizeof(host) - 1, &none));
	assert_string_equal(none.name, "");
	assert_false(pod_of_environment(cut, sizeof(cut) - 1, &none));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_of_cgroups),
		cmocka_unit_test(mounts),
		cmocka_unit_test(environments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
