// Scatter lists, tickets, outcomes: part of the public interface.
#pragma once

#include "tiercel/transfer.hpp"
