#include "tier/link_meter.h"

#include <algorithm>

namespace tiercel {
namespace {

void smooth(double& value, double sample) {
  value = value == 0 ? sample : value + LinkMeter::kWeight * (sample - value);
}

}  // namespace

void LinkMeter::start(Direction direction, std::int64_t now_ns) {
  Way& way = ways_[static_cast<int>(direction)];
  if (way.active++ == 0) way.busy_since_ns = now_ns;
}

void LinkMeter::finish(Direction direction, std::uint64_t bytes, std::int64_t latency_ns,
                       std::int64_t now_ns) {
  Way& way = ways_[static_cast<int>(direction)];
  way.busy_ns += now_ns - way.busy_since_ns;
  way.busy_since_ns = now_ns;
  --way.active;
  way.bytes += bytes;
  if ((way.bytes >= kSampleBytes || way.busy_ns >= kSampleNs || way.bytes_per_s == 0) &&
      way.busy_ns > 0) {
    smooth(way.bytes_per_s,
           static_cast<double>(way.bytes) * 1e9 / static_cast<double>(way.busy_ns));
    way.bytes = 0;
    way.busy_ns = 0;
  }
  if (way.bytes_per_s > 0) {
    const double transfer_s = static_cast<double>(bytes) / way.bytes_per_s;
    smooth(latency_s_, std::max(0.0, static_cast<double>(latency_ns) * 1e-9 - transfer_s));
  }
}

LinkEstimate LinkMeter::estimate() const {
  return {.latency_s = latency_s_,
          .read_bytes_per_s = ways_[0].bytes_per_s,
          .write_bytes_per_s = ways_[1].bytes_per_s,
          .queued_ops = ways_[0].active + ways_[1].active};
}

}  // namespace tiercel
