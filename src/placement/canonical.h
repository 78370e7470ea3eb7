// The canonical form of a placement: every key, fixed order, exact units, defaults written out.
//
// Reading it back gives the same placement, so equal texts mean equal placements and the hash of the text names one.
// Threads Pure functions.
// Source  docs/formats/placement.md, section "Canonical form"
#pragma once

#include <string>

#include "placement/placement.h"

namespace tiercel {

std::string canonical_placement(const Placement& placement);

// SHA-256 of that text, in hex: what a report carries.
std::string placement_sha256(const Placement& placement);

}  // namespace tiercel
