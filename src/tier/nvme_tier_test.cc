// The cold tier: conformance over ring, threads and buffered I/O.
#include "tier/nvme_harness.h"

namespace tiercel {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Cold, TierConformance,
    testing::Values(
        HarnessFactory{"ring", [] { return std::make_unique<NvmeHarness>(IoEngine::ring); }},
        HarnessFactory{"threads", [] { return std::make_unique<NvmeHarness>(IoEngine::threads); }},
        HarnessFactory{"buffered",
                       [] { return std::make_unique<NvmeHarness>(IoEngine::ring, false); }}),
    [](const auto& factory) { return factory.param.name; });

}  // namespace
}  // namespace tiercel
