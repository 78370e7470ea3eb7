// The queue on plain threads, each with one blocking call at a time: where there is no ring.
#pragma once

#include <memory>
#include <string>

#include "io/io_queue.h"

namespace tiercel {

Result<std::unique_ptr<IoQueue>> make_thread_queue(const IoQueueOptions& options,
                                                   std::string reason);

}  // namespace tiercel
