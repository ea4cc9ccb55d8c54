/* SPDX-License-Identifier: MIT
 *
 * What a source knew before its driver hung, on the page that recorder and helper share: whoever hangs sends nothing any
 * more. The turn tells a frame that is whole from one that is being written.
 */
#include <string.h>

#include "record/wire.h"
#include "gpu/gpu_shared.h"

void gpu_so_far_put(struct gpu_so_far *page, const struct frame *frame)
{
	const size_t size = wire_frame_size(frame);
	const bool fits = size <= sizeof(page->message);
	const uint32_t turn = atomic_load(&page->turn) | 1; /* whoever wrote before may have been killed over it */

	atomic_store(&page->turn, turn);
	atomic_thread_fence(memory_order_seq_cst); /* what is written below is seen after it, also where a store holds back none */
	atomic_store(&page->size, fits ? (uint32_t) size : 0);
	if (fits) {
		memset(page->message, 0, size);
		wire_frame_put(page->message, frame);
	}
	atomic_store(&page->turn, turn + 1);
}

void gpu_so_far_drop(struct gpu_so_far *page)
{
	if (atomic_load(&page->size) > 0)
		atomic_store(&page->size, 0);
}

size_t gpu_so_far_take(struct gpu_so_far *page, uint32_t *taken, void *ret)
{
	const uint32_t turn = atomic_load(&page->turn), size = atomic_load(&page->size);

	if (turn % 2 || turn == *taken || size == 0 || size > sizeof(page->message))
		return 0;
	memcpy(ret, page->message, size);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&page->turn) != turn)
		return 0;
	*taken = turn;
	return size;
}
