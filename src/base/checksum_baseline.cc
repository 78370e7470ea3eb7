#include "base/checksum_kernel.h"
#include "base/checksum_kernel.inc"

namespace tiercel {
const ChecksumKernel kChecksumBaseline = {"baseline", once, reset, update, finish};
}  // namespace tiercel
