// What the bytes of a block mean: part of the public interface.
#pragma once

#include "tiercel/layout.hpp"
