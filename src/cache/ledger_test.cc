#include "cache/ledger.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tiercel {
namespace {

TEST(Ledger, GivesOutWhatItHasAndTakesItBackWithTheHandle) {
  Ledger ledger(100);
  {
    auto kv = ledger.reserve(MemoryClass::kv, 60);
    ASSERT_TRUE(kv);
    EXPECT_EQ(kv->bytes(), 60U);
    EXPECT_EQ(ledger.free_bytes(), 40U);
    const auto refused = ledger.reserve(MemoryClass::weights, 41);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::no_space);
    EXPECT_NE(refused.error().what.find("kv 60 B"), std::string::npos) << refused.error().what;
    EXPECT_TRUE(ledger.reserve(MemoryClass::weights, 40));
  }
  EXPECT_EQ(ledger.free_bytes(), 100U);
}

TEST(Ledger, AReservationMovesAndIsGivenBackOnce) {
  Ledger ledger(100);
  auto first = ledger.reserve(MemoryClass::staging, 30);
  ASSERT_TRUE(first);
  Reservation second = std::move(*first);
  *first = Reservation();
  EXPECT_EQ(ledger.used_bytes(MemoryClass::staging), 30U);
  auto third = ledger.reserve(MemoryClass::staging, 20);
  ASSERT_TRUE(third);
  second = std::move(*third);  // Gives the 30 back.
  EXPECT_EQ(ledger.used_bytes(MemoryClass::staging), 20U);
  second = {};
  EXPECT_EQ(ledger.used_bytes(MemoryClass::staging), 0U);
}

TEST(Ledger, ThreadsNeverGetMoreThanThereIs) {
  Ledger ledger(10);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&ledger] {
      for (int i = 0; i < 2000; ++i) {
        const auto three = ledger.reserve(MemoryClass::kv, 3);
        EXPECT_LE(ledger.used_bytes(MemoryClass::kv), 10U);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ledger.free_bytes(), 10U);
}

}  // namespace
}  // namespace tiercel
