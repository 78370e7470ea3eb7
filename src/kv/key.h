// Names of blocks: they are part of the public interface.
#pragma once

#include "tiercel/names.hpp"
