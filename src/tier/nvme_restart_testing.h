// What the tests of restart and of the store's directory share: records written, acknowledged, and looked for again.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <vector>

#include "base/checksum.h"
#include "kv/little_endian.h"
#include "tier/nvme_harness.h"
#include "tier/store_reader.h"

namespace tiercel {

inline constexpr std::uint64_t kPayload = 100'000;

struct Written {
  std::vector<TestRecord> records;
  std::vector<Place> places;
};

inline Written write_records(NvmeHarness& harness, std::size_t count, std::uint64_t seed = 1) {
  Written written;
  std::vector<Op> ops;
  for (std::size_t i = 0; i < count; ++i) {
    written.records.push_back(make_test_record(seed + i, kPayload));
    written.places.push_back(harness.place(written.records.back().bytes.size()));
    ops.push_back(written.records.back().store(written.places.back()));
    if (ops.size() == 32 || i + 1 == count) {
      for (const Completion& completion : harness.run(std::move(ops)))
        EXPECT_EQ(completion.outcome, Outcome::delivered);
      ops.clear();
    }
  }
  return written;
}

inline std::map<Key, Place> places_of(const Recovered& recovered) {
  std::map<Key, Place> places;
  for (const RecoveredSegment& segment : recovered.segments) {
    for (const RecoveredRecord& record : segment.records) places[record.key] = record.place;
  }
  return places;
}

// Everything but the records in `lost` is found at its place with its bytes; those are not found.
inline void expect_found(NvmeHarness& harness, const Recovered& recovered, const Written& written,
                         std::vector<std::size_t> lost = {}) {
  const auto places = places_of(recovered);
  EXPECT_EQ(places.size(), written.records.size() - lost.size());
  for (std::size_t i = 0; i < written.records.size(); ++i) {
    const auto found = places.find(written.records[i].head.key);
    if (std::ranges::find(lost, i) != lost.end()) {
      EXPECT_EQ(found, places.end()) << i;
      continue;
    }
    ASSERT_NE(found, places.end()) << i;
    EXPECT_EQ(found->second, written.places[i]);
    EXPECT_EQ(harness.load(written.records[i], found->second).outcome, Outcome::delivered) << i;
  }
}

}  // namespace tiercel
