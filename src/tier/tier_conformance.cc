// The suite of tier_conformance.h. Linked into every test program that instantiates it.
#include "tier/tier_conformance.h"

namespace tiercel {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TierConformance);

TEST_P(TierConformance, GivesBackWhatWasStored) {
  for (const std::uint64_t payload : {1, 4096, 65536, 100'000, 1'000'000}) {
    const TestRecord record = make_test_record(payload, payload, payload > 60000 ? 3 : 1);
    const Place place = store(record);
    AlignedBytes back(record.bytes.size(), std::byte{0xee});
    const Completion completion = run_one(record.load(place, back.span(), 77));
    ASSERT_EQ(completion.outcome, Outcome::delivered) << completion.error.what;
    EXPECT_EQ(completion.tag, 77U);
    EXPECT_TRUE(std::ranges::equal(back.span(), record.bytes.span())) << payload;
  }
}

TEST_P(TierConformance, ManyAtOnceEachWithItsOwnBytes) {
  std::vector<TestRecord> records;
  std::vector<Place> places;
  std::vector<Op> ops;
  for (std::uint64_t i = 0; i < 40; ++i) {
    records.push_back(make_test_record(i, 20'000 + i * 1000));
    places.push_back(harness_->place(records.back().bytes.size()));
    ops.push_back(records.back().store(places.back(), i));
  }
  for (const auto& [tag, completion] : run(ops)) {
    ASSERT_EQ(completion.outcome, Outcome::delivered) << completion.error.what;
  }
  std::vector<AlignedBytes> back;
  ops.clear();
  for (std::uint64_t i = 0; i < 40; ++i) {
    back.emplace_back(records[i].bytes.size());
    ops.push_back(records[i].load(places[i], back[i].span(), i));
  }
  for (const auto& [tag, completion] : run(ops)) {
    ASSERT_EQ(completion.outcome, Outcome::delivered) << completion.error.what;
  }
  for (std::size_t i = 0; i < 40; ++i)
    EXPECT_TRUE(std::ranges::equal(back[i].span(), records[i].bytes.span())) << i;
}

TEST_P(TierConformance, MemoryMayBeScatteredAnyhow) {
  Rng rng(5);
  for (int round = 0; round < 20; ++round) {
    const TestRecord record = make_test_record(100U + round, 50'000, 2);
    const bool aligned = round % 2 == 0;
    const auto cut = [&](std::span<std::byte> all) {
      ScatterList list;
      for (std::size_t at = 0; at < all.size();) {
        const std::size_t length = std::min<std::size_t>(
            all.size() - at, aligned ? 4096 * (1 + rng.below(4)) : 1 + rng.below(9000));
        list.push_back(host_piece(all.subspan(at, length)));
        at += length;
      }
      return list;
    };
    const Place place = harness_->place(record.bytes.size());
    Op store = record.store(place);
    store.memory = cut(record.bytes.span());
    ASSERT_EQ(run_one(store).outcome, Outcome::delivered);
    AlignedBytes back(record.bytes.size() + 1);
    const auto destination = back.span().subspan(
        aligned ? 0 : 1, record.bytes.size());  // Off by one: no direct I/O there.
    Op load = record.load(place, destination);
    load.memory = cut(destination);
    const Completion completion = run_one(load);
    ASSERT_EQ(completion.outcome, Outcome::delivered) << completion.error.what;
    ASSERT_TRUE(std::ranges::equal(destination, record.bytes.span()));
  }
}

TEST_P(TierConformance, ArenaHandlesAreFollowedAndStaleOnesRefused) {
  const TestRecord record = make_test_record(7, 30'000);
  const Place place = store(record);
  AlignedBytes back(record.bytes.size());
  Op load = record.load(place, back.span());
  // The last bytes of the harness's arena are nobody's.
  const Handle handle = harness_->arena().handle(harness_->arena().base() +
                                                 harness_->arena().bytes() - record.bytes.size());
  load.memory = {Piece{.kind = MemoryKind::arena, .handle = handle, .bytes = record.bytes.size()}};
  const Completion completion = run_one(load);
  ASSERT_EQ(completion.outcome, Outcome::delivered) << completion.error.what;
  const std::span<const std::byte> delivered(harness_->arena().resolve(handle, record.bytes.size()),
                                             record.bytes.size());
  EXPECT_TRUE(std::ranges::equal(delivered, record.bytes.span()));
  ++load.memory[0].handle.generation;
  EXPECT_EQ(tier_.submit(std::span(&load, 1)).error().code, Errc::invalid);
}

TEST_P(TierConformance, AnotherKeyOrFingerprintIsNeverServed) {
  const TestRecord record = make_test_record(1, 20'000);
  const Place place = store(record);
  AlignedBytes back(record.bytes.size());
  Op load = record.load(place, back.span());
  load.key = test_key(2);
  expect_corrupt(run_one(load));
  load = record.load(place, back.span());
  load.fingerprint = test_fingerprint(9);
  expect_corrupt(run_one(load));
  EXPECT_EQ(tier_.stats().corrupt, 2U);
}

TEST_P(TierConformance, WhatWouldHaveToBeDecodedIsNeverDeliveredAsPlainBytes) {
  const std::function<void(RecordHead&)> changes[] = {
      [](RecordHead& head) { head.chunks[1].codec = 7; },
      [](RecordHead& head) { ++head.chunks[0].plain_bytes; },
      [](RecordHead& head) { head.key_id = 1; },
      [](RecordHead&) {},  // The control: nothing but these is refused.
  };
  for (std::size_t i = 0; i < std::size(changes); ++i) {
    SCOPED_TRACE(i);
    TestRecord record = make_test_record(i, 20'000, 2);
    changes[i](record.head);
    ASSERT_TRUE(encode_head(record.head, record.bytes.span().first(record_head_bytes(2))));
    const Place place = store(record);
    AlignedBytes back(record.bytes.size());
    const Completion completion = run_one(record.load(place, back.span()));
    if (i + 1 == std::size(changes)) {
      EXPECT_EQ(completion.outcome, Outcome::delivered);
    } else {
      expect_corrupt(completion);
    }
  }
}

TEST_P(TierConformance, TheNeighboursSlotIsNotMine) {
  const TestRecord mine = make_test_record(1, 20'000), theirs = make_test_record(2, 20'000);
  store(mine);
  const Place other = store(theirs);
  AlignedBytes back(mine.bytes.size());
  expect_corrupt(run_one(mine.load(other, back.span())));
}

TEST_P(TierConformance, AFlippedBitAnywhereIsAnErrorAndCounted) {
  const TestRecord record =
      make_test_record(3, 20'000, 2);  // Chunks of 10,000 bytes: padding between them.
  const std::uint64_t spots[] = {3,
                                 20,
                                 100,
                                 300,
                                 4000,
                                 4096,
                                 14000,
                                 4096 + 10'000 + 5,
                                 4096 + 12'288 + 77,
                                 record.bytes.size() - 1};
  std::uint64_t expected = 0;
  for (const std::uint64_t spot : spots) {
    const Place place = store(record);
    harness_->flip_bit(place, spot);
    AlignedBytes back(record.bytes.size());
    SCOPED_TRACE(testing::Message() << "byte " << spot);
    expect_corrupt(run_one(record.load(place, back.span())));
    EXPECT_EQ(tier_.stats().corrupt, ++expected);
    harness_->flip_bit(place,
                       spot);  // Flipped back: the check was of that bit, not of something else.
    EXPECT_EQ(run_one(record.load(place, back.span())).outcome, Outcome::delivered);
  }
}

TEST_P(TierConformance, WhereNothingWasWrittenThereIsNothing) {
  const TestRecord record = make_test_record(4, 20'000);
  AlignedBytes back(record.bytes.size(), std::byte{0x55});
  const Completion completion =
      run_one(record.load(harness_->never_written(record.bytes.size()), back.span()));
  EXPECT_NE(completion.outcome, Outcome::delivered);
}

TEST_P(TierConformance, AShorterOrLongerPlaceThanTheRecordIsNoHit) {
  const TestRecord record = make_test_record(5, 20'000);
  const Place place = store(record);
  for (const std::int64_t by : {-4096, 4096}) {
    Place wrong = place;
    wrong.bytes += static_cast<std::uint64_t>(by);
    AlignedBytes back(wrong.bytes);
    expect_corrupt(run_one(record.load(wrong, back.span())));
  }
}

TEST_P(TierConformance, WhatDoesNotFitItsPlaceOrIsNoRecordIsRefused) {
  const TestRecord record = make_test_record(6, 20'000);
  const Place place = harness_->place(record.bytes.size());
  const auto refused = [&](const Op& op) { return tier_.submit(std::span(&op, 1)).error().code; };
  Op op = record.store(place);
  op.place.bytes += 4096;
  EXPECT_EQ(refused(op), Errc::invalid) << "memory shorter than the place";
  op = record.store(place);
  op.place.offset += 512;
  EXPECT_EQ(refused(op), Errc::invalid) << "not of whole pages";
  op = record.store(place);
  op.place.offset = tier_.capabilities().capacity_bytes;
  EXPECT_EQ(refused(op), Errc::invalid) << "beyond the capacity";
  op = record.store(place);
  op.place.segment = 1'000'000;
  EXPECT_EQ(refused(op), Errc::invalid) << "no such segment";
  op = record.store(place);
  op.key = test_key(99);
  EXPECT_EQ(refused(op), Errc::invalid) << "another key than its head says";
  TestRecord damaged = make_test_record(6, 20'000);
  damaged.bytes.span()[50] ^= std::byte{1};
  EXPECT_EQ(refused(damaged.store(place)), Errc::invalid) << "a head that does not verify";
  EXPECT_EQ(run_one(record.store(place)).outcome, Outcome::delivered)
      << "nothing was taken by the refused ones";
}

TEST_P(TierConformance, BeyondTheBoundItIsBusyAndNothingChanged) {
  const TestRecord record = make_test_record(8, 8000);
  const Place place = store(record);
  const std::size_t limit = harness_->queue_ops_max();
  std::vector<AlignedBytes> back;
  std::vector<Op> ops;
  for (std::size_t i = 0; i < limit; ++i) {
    back.emplace_back(record.bytes.size());
    ops.push_back(record.load(place, back.back().span(), i));
  }
  ASSERT_TRUE(tier_.submit(ops));
  EXPECT_EQ(tier_.submit(std::span(ops).first(1)).error().code, Errc::busy);
  std::vector<Completion> done;
  while (done.size() < limit) ASSERT_GT(tier_.wait(done, 1'000'000'000), 0U);
  EXPECT_EQ(done.size(), limit);
  EXPECT_EQ(run(std::span(ops).first(1)).begin()->second.outcome, Outcome::delivered);
  EXPECT_EQ(tier_.stats().loads, limit + 1);
}

TEST_P(TierConformance, PastItsDeadlineAnOpIsCancelledNotLate) {
  const TestRecord record = make_test_record(9, 8000);
  const Place place = store(record);
  harness_->clock().advance_ns(1'000'000);
  AlignedBytes back(record.bytes.size());
  Op load = record.load(place, back.span());
  load.deadline_ns = harness_->clock().now_ns() - 1;
  const Completion late = run_one(load);
  EXPECT_EQ(late.outcome, Outcome::error);
  EXPECT_EQ(late.error.code, Errc::cancelled);
  load.deadline_ns = harness_->clock().now_ns() + 1'000'000'000;
  EXPECT_EQ(run_one(load).outcome, Outcome::delivered);
}

TEST_P(TierConformance, CancelledOrTooLateEachOpStillEndsOnce) {
  const TestRecord record = make_test_record(10, 200'000);
  const Place place = store(record);
  std::vector<AlignedBytes> back;
  std::vector<Op> ops;
  for (std::size_t i = 0; i < harness_->queue_ops_max(); ++i) {
    back.emplace_back(record.bytes.size());
    ops.push_back(record.load(place, back.back().span(), i));
  }
  const auto ticket = tier_.submit(ops);
  ASSERT_TRUE(ticket);
  tier_.cancel(*ticket);
  tier_.cancel(*ticket + 1000);  // Of nobody.
  std::vector<Completion> done;
  while (done.size() < ops.size()) ASSERT_GT(tier_.wait(done, 1'000'000'000), 0U);
  std::vector<int> seen(ops.size());
  for (const Completion& completion : done) {
    ++seen[completion.tag];
    if (completion.outcome == Outcome::delivered) {
      EXPECT_TRUE(std::ranges::equal(back[completion.tag].span(), record.bytes.span()));
    } else {
      EXPECT_EQ(completion.error.code, Errc::cancelled);
    }
  }
  EXPECT_TRUE(std::ranges::all_of(seen, [](int count) { return count == 1; }));
}

TEST_P(TierConformance, CountsPhysicalBytesAndMeasuresItsLink) {
  const TestRecord record = make_test_record(11, 60'000);
  const Place place = store(record);
  AlignedBytes back(record.bytes.size());
  run_one(record.load(place, back.span()));
  Op commit;
  commit.type = OpType::commit;
  EXPECT_EQ(run_one(commit).outcome, Outcome::delivered);
  const TierStats stats = tier_.stats();
  EXPECT_EQ(stats.stores, 1U);
  EXPECT_EQ(stats.loads, 1U);
  EXPECT_EQ(stats.commits, 1U);
  EXPECT_EQ(stats.errors + stats.misses + stats.corrupt, 0U);
  EXPECT_GE(stats.bytes_read, record.bytes.size());
  EXPECT_GE(stats.bytes_written, record.bytes.size());
  EXPECT_LE(stats.bytes_written, record.bytes.size() + 2 * 4096);
  EXPECT_GT(tier_.capabilities().capacity_bytes, 0U);
}

TEST_P(TierConformance, NothingUnderWayMeansNoWaiting) {
  std::vector<Completion> done;
  EXPECT_EQ(tier_.wait(done, 3'600'000'000'000), 0U);
  EXPECT_EQ(tier_.poll(done), 0U);
}

// Seeded operations against a plain map of what each key should read as.
TEST_P(TierConformance, AgreesWithAMapUnderRandomOperations) {
  std::vector<std::uint64_t> seeds{1, 2, 3};
  if (const char* const one = std::getenv("TIERCEL_SEED"))
    seeds = {std::strtoull(one, nullptr, 10)};
  for (const std::uint64_t seed : seeds) {
    SCOPED_TRACE(testing::Message() << "TIERCEL_SEED=" << seed);
    harness_ = GetParam().make();
    Tier& tier = harness_->tier();
    Rng rng(seed);
    struct Stored {
      std::uint64_t record_seed, payload;
      Place place;
      bool complete;
    };
    std::vector<Stored> model;
    std::map<std::uint64_t, std::size_t> stores;  // By tag.
    std::map<std::uint64_t, std::pair<std::size_t, AlignedBytes>> loads;
    std::vector<TestRecord> kept;  // Sources stay until their store completes.
    kept.reserve(400);
    std::uint64_t tag = 0;
    std::uint64_t delivered = 0;
    const auto take = [&](std::vector<Completion>& done) {
      for (const Completion& completion : done) {
        if (const auto store = stores.find(completion.tag); store != stores.end()) {
          ASSERT_EQ(completion.outcome, Outcome::delivered) << completion.error.what;
          model[store->second].complete = true;
        } else if (const auto load = loads.find(completion.tag); load != loads.end()) {
          const Stored& stored = model[load->second.first];
          ASSERT_EQ(completion.outcome, Outcome::delivered) << completion.error.what;
          const TestRecord expected = make_test_record(stored.record_seed, stored.payload);
          ASSERT_TRUE(std::ranges::equal(load->second.second.span(), expected.bytes.span()));
          loads.erase(load);
          ++delivered;
        }
      }
      done.clear();
    };
    std::vector<Completion> done;
    const auto submit = [&](const Op& op) {  // Busy is an answer, not a failure.
      auto ticket = tier.submit(std::span(&op, 1));
      while (!ticket && ticket.error().code == Errc::busy) {
        ASSERT_GT(tier.wait(done, 1'000'000'000), 0U);
        take(done);
        ticket = tier.submit(std::span(&op, 1));
      }
      ASSERT_TRUE(ticket) << ticket.error().what;
    };
    for (int step = 0; step < 300; ++step) {
      if (rng.chance(0.5) || model.empty()) {
        const std::uint64_t payload = 1 + rng.below(60'000);
        kept.push_back(make_test_record(1000 + step, payload));
        const Place place = harness_->place(kept.back().bytes.size());
        stores[++tag] = model.size();
        model.push_back({1000U + step, payload, place, false});
        const Op op = kept.back().store(place, tag);
        submit(op);
      } else if (rng.chance(0.9)) {
        const std::size_t which = rng.below(model.size());
        if (!model[which].complete) continue;
        const TestRecord record = make_test_record(model[which].record_seed, model[which].payload);
        const auto [entry, added] =
            loads.emplace(++tag, std::pair(which, AlignedBytes(record.bytes.size())));
        const Op op = record.load(model[which].place, entry->second.second.span(), tag);
        submit(op);
      } else {
        const Op op{.type = OpType::commit, .tag = ++tag};
        submit(op);
      }
      if (rng.chance(0.3)) {
        tier.poll(done);
        take(done);
      }
      if (step % 20 == 0) {
        tier.wait(done, 1'000'000'000);
        take(done);
      }
    }
    for (int round = 0; round < 1000; ++round) {
      if (tier.wait(done, 1'000'000'000) == 0) break;
      take(done);
    }
    EXPECT_TRUE(loads.empty());
    EXPECT_TRUE(std::ranges::all_of(model, &Stored::complete));
    EXPECT_GT(delivered, 20U);
  }
}

}  // namespace tiercel
