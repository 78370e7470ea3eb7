// The queue on io_uring. Registered buffers and polling are left out: from 1 MiB requests they gain
// under 3 % here.
#pragma once

#include <memory>

#include "io/io_queue.h"

namespace tiercel {

// Errors: unavailable  the kernel has no ring for us (too old, forbidden, no memory to lock); the
// text says which.
Result<std::unique_ptr<IoQueue>> make_ring_queue(const IoQueueOptions& options);

}  // namespace tiercel
