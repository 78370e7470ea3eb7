// The places of a store whose records failed their verification, while their segments live on. Kept in the checkpoint, so that a
// restart leaves them out. The process that found one bad still reads it when asked, and delivers what verifies.
//
// Key     A place is known by its key too: who asked for the wrong record there hides nothing of the right one.
// Bounds  At most `places_max`; the oldest goes first. What is forgotten so is found bad again when it is read.
// Threads one thread.
#pragma once

#include <algorithm>
#include <vector>

#include "tier/checkpoint_format.h"

namespace tiercel {

class Quarantine {
 public:
  explicit Quarantine(std::uint64_t places_max) : places_max_(places_max) {}

  // False where the place was there already.
  bool add(QuarantinedPlace place) {
    if (holds(place.segment, place.offset, place.key)) return false;
    if (places_.size() >= places_max_) places_.erase(places_.begin());
    places_.push_back(std::move(place));
    return true;
  }

  bool holds(std::uint32_t segment, std::uint64_t offset, const Key& key) const {
    return std::ranges::any_of(places_, [&](const QuarantinedPlace& place) {
      return place.segment == segment && place.offset == offset && place.key == key;
    });
  }

  // The segment has a new life: its places are others.
  void end_life(std::uint32_t segment) {
    std::erase_if(places_, [&](const auto& place) { return place.segment == segment; });
  }

  const std::vector<QuarantinedPlace>& places() const { return places_; }  // Oldest first.

 private:
  const std::uint64_t places_max_;
  std::vector<QuarantinedPlace> places_;
};

}  // namespace tiercel
