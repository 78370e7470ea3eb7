// Kinds and their reach: they are part of the public interface.
#pragma once

#include "tiercel/names.hpp"
