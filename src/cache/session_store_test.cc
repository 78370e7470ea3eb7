// Sessions that are put to bed and got up again, one behaviour at a time. Faults have a file of their own.
#include "cache/session_harness.h"

namespace tiercel {
namespace {

TEST(SessionStore, WhatWasSuspendedComesBackWholeAlsoAfterARestart) {
  SessionHarness harness;
  TestSession session("evening");
  session.add_run(1, 20).with_state(5, 5000, 333);
  const auto suspended = session.suspend(harness.store());
  ASSERT_TRUE(suspended) << suspended.error().what;
  EXPECT_EQ(suspended->version, 1U);
  EXPECT_EQ(suspended->position, 20U);
  EXPECT_EQ(suspended->updated_unix_s, 1000);
  harness.expect_whole(session);
  harness.reopen();
  harness.expect_whole(session);
  EXPECT_EQ(*harness.store().find("evening"), *suspended);
  EXPECT_EQ(harness.store().list()->size(), 1U);
  EXPECT_EQ(harness.store().stats().sessions, 1U);
  EXPECT_GT(harness.store().stats().blocks, 20U);
  EXPECT_EQ(harness.store().stats().leftovers_removed, 0U);
}

TEST(SessionStore, AControlAWrongByteIsSeenByTheseTests) {
  SessionHarness harness;
  TestSession session("control");
  session.add_run(1, 3);
  ASSERT_TRUE(session.suspend(harness.store()));
  auto manifest = *harness.store().find("control");
  std::swap(manifest.blocks[0].key, manifest.blocks[1].key);  // Block 0 is now read as block 1.
  std::vector<std::byte> memory(kBlockPayload);
  const std::size_t which = 0;
  const ScatterList list{host_piece(std::span(memory))};
  ASSERT_TRUE(harness.store().read(manifest, std::span(&which, 1), std::span(&list, 1), 0,
                                   [](std::size_t, Outcome, const Error&) {}));
  EXPECT_NE(memory, session_bytes(session.draft.blocks[0].head.key.low64(), kBlockPayload));
}

TEST(SessionStore, ASessionThatGrowsReplacesItsTailAndItsSpaceComesBack) {
  SessionHarness harness;
  TestSession session("growing");
  session.add_run(1, 4);
  ASSERT_TRUE(session.suspend(harness.store()));
  const std::uint64_t before = harness.store().stats().live_bytes;
  TestSession grown("growing");
  grown.add_run(1, 3).add_run(100, 2);  // Block 3 was partial; now it is full, so another one.
  const auto suspended = grown.suspend(harness.store());
  ASSERT_TRUE(suspended) << suspended.error().what;
  EXPECT_EQ(suspended->version, 2U);
  EXPECT_EQ(grown.reads, 2U) << "the first three were there";
  EXPECT_EQ(harness.store().stats().live_bytes, before / 4 * 5) << "the old tail is dead";
  EXPECT_FALSE(harness.store().holds(session.draft.blocks[3].head.key));
  harness.reopen();
  harness.expect_whole(grown);
  EXPECT_EQ(harness.store().stats().live_bytes, before / 4 * 5);
}

TEST(SessionStore, ASharedPrefixIsStoredOnceAndStaysWhileOneSessionRefersToIt) {
  SessionHarness harness;
  TestSession a("a"), b("b");
  a.add_run(1, 5).add_run(50, 1);
  b.add_run(1, 5).add_run(60, 1);
  ASSERT_TRUE(a.suspend(harness.store()));
  ASSERT_TRUE(b.suspend(harness.store()));
  EXPECT_EQ(b.reads, 1U);
  EXPECT_EQ(harness.store().stats().blocks, 7U);
  ASSERT_TRUE(harness.store().forget("a"));
  EXPECT_EQ(harness.store().stats().blocks, 6U);
  harness.expect_whole(b);
  harness.reopen();
  EXPECT_FALSE(harness.store().find("a"));
  harness.expect_whole(b);
  ASSERT_TRUE(harness.store().forget("b"));
  EXPECT_EQ(harness.store().stats().live_bytes, 0U);
}

TEST(SessionStore, SeveralKindsAreOneSession) {
  SessionHarness harness;
  TestSession session("hybrid");
  const Kind window{.id = 1, .reach = Reach::window, .window_tokens = 32};
  const Kind last{.id = 2, .reach = Reach::last};
  for (std::uint32_t i = 0; i < 6; ++i) {
    session.add(i, i);
    if (i >= 4) session.add(i, i, window, 3000);
  }
  session.add(5, 5, last, 11'111);
  const auto suspended = session.suspend(harness.store());
  ASSERT_TRUE(suspended) << suspended.error().what;
  ASSERT_EQ(suspended->kinds.size(), 3U);
  EXPECT_EQ(suspended->kinds[1].kind, window);
  harness.reopen();
  harness.expect_whole(session);
}

TEST(SessionStore, WithoutTokensStateOrBlocks) {
  SessionHarness harness;
  TestSession bare("bare"), only_blocks("only blocks");
  bare.draft.block_tokens = 1;
  only_blocks.add_run(1, 1);
  ASSERT_TRUE(bare.suspend(harness.store()));
  ASSERT_TRUE(only_blocks.suspend(harness.store()));
  harness.reopen();
  harness.expect_whole(bare);
  harness.expect_whole(only_blocks);
}

TEST(SessionStore, StateLargerThanARecordIsCutAndEqualPiecesAreStoredOnce) {
  SessionHarness harness;
  TestSession a("a"), b("b");
  a.with_state(9, 400'000, 20'000);
  b.with_state(9, 400'000, 20'000);
  b.state.back() ^= std::byte{1};
  ASSERT_TRUE(a.suspend(harness.store()));
  const std::uint64_t records = harness.store().stats().blocks;
  EXPECT_GT(records, 10U);
  ASSERT_TRUE(b.suspend(harness.store()));
  EXPECT_EQ(harness.store().stats().blocks, records + 1) << "only the last piece differs";
  harness.reopen();
  harness.expect_whole(a);
  harness.expect_whole(b);
}

TEST(SessionStore, ForgettingIsDurable) {
  SessionHarness harness;
  TestSession session("gone");
  session.add_run(1, 3);
  ASSERT_TRUE(session.suspend(harness.store()));
  const SessionManifest manifest = *harness.store().find("gone");
  ASSERT_TRUE(harness.store().forget("gone"));
  EXPECT_EQ(read_session(harness.store(), manifest), (SessionRead{.missed = 3}));
  harness.reopen();
  EXPECT_TRUE(harness.store().list()->empty());
  EXPECT_EQ(harness.store().stats().live_bytes, 0U);
  const auto again = harness.store().forget("gone");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Errc::invalid);
}

TEST(SessionStore, ATtlEndsASessionAndAClockThatJumpsBackKeepsItLonger) {
  SessionHarness harness;
  TestSession mortal("mortal"), immortal("immortal");
  mortal.add_run(1, 2);
  mortal.draft.expires_unix_s = 5000;
  immortal.add_run(10, 2);
  ASSERT_TRUE(mortal.suspend(harness.store()));
  ASSERT_TRUE(immortal.suspend(harness.store()));
  EXPECT_TRUE(harness.store().expire(4999)->empty());
  EXPECT_TRUE(harness.store().expire(-7)->empty()) << "years back: nothing ends";
  harness.reopen();
  harness.expect_whole(mortal);
  EXPECT_EQ(*harness.store().expire(5000), std::vector<std::string>{"mortal"});
  EXPECT_EQ(harness.store().stats().expired, 1U);
  harness.reopen();
  EXPECT_FALSE(harness.store().find("mortal"));
  harness.expect_whole(immortal);
}

TEST(SessionStore, AFullShareRefusesAndNothingIsHalfSuspendedAndNothingElseLost) {
  SessionHarness harness;
  std::vector<std::unique_ptr<TestSession>> sessions;
  Error refused;
  for (std::uint64_t n = 0; n < 1000 && refused.what.empty(); ++n) {
    auto session = std::make_unique<TestSession>("n" + std::to_string(n));
    session->add_run(1000 * n, 10).with_state(n, 3000);
    const auto suspended = session->suspend(harness.store());
    if (!suspended) refused = suspended.error();
    if (suspended) sessions.push_back(std::move(session));
    EXPECT_LE(harness.disk_bytes(), harness.options().capacity_bytes);
  }
  ASSERT_EQ(refused.code, Errc::no_space) << refused.what;
  EXPECT_NE(refused.what.find("share of 4 MiB"), std::string::npos) << refused.what;
  EXPECT_GT(sessions.size(), 12U) << "the share holds 3.3 MiB, a session has 168 KiB";
  // A session that is there and cannot grow is as it was.
  TestSession grown(sessions[0]->name);
  grown.add_run(0, 10).add_run(500'000, 40);
  EXPECT_EQ(grown.suspend(harness.store()).error().code, Errc::no_space);
  for (const auto& session : sessions) harness.expect_whole(*session);
  harness.reopen();
  EXPECT_EQ(harness.store().list()->size(), sessions.size());
  for (const auto& session : sessions) harness.expect_whole(*session);
  // Room again.
  for (int i = 1; i < 5; ++i) ASSERT_TRUE(harness.store().forget(sessions[i]->name));
  ASSERT_TRUE(grown.suspend(harness.store()));
  harness.expect_whole(grown);
  EXPECT_LE(harness.disk_bytes(), harness.options().capacity_bytes);
}

TEST(SessionStore, ManyManifestsDoNotPassTheCapEither) {
  SessionHarness harness;
  TestSession base("base");
  base.add_run(1, 1);
  ASSERT_TRUE(base.suspend(harness.store()));
  std::size_t count = 1;
  for (;; ++count) {
    TestSession session("copy " + std::to_string(count));
    session.add_run(1, 1);
    const auto suspended = session.suspend(harness.store());
    if (suspended) continue;
    EXPECT_EQ(suspended.error().code, Errc::no_space);
    EXPECT_NE(suspended.error().what.find("manifests"), std::string::npos);
    break;
  }
  EXPECT_GT(count, 100U);
  EXPECT_LE(harness.disk_bytes(), harness.options().capacity_bytes);
  EXPECT_GE(harness.store().stats().physical_bytes, harness.disk_bytes());
  harness.expect_whole(base);
  harness.reopen();
  EXPECT_EQ(harness.store().list()->size(), count);
}

// The share is nearly full all the time, so room comes from compaction alone.
TEST(SessionStore, ChurnIsCompactedForManyCyclesAndTheLivingStayWhole) {
  for (const std::uint64_t seed : {1ULL, 2ULL, 3ULL}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    SessionHarness harness;
    Rng rng(seed);
    std::map<std::string, std::unique_ptr<TestSession>> alive;
    std::uint64_t next_seed = 1, compactions = 0, refusals = 0;
    for (int step = 0; step < 150; ++step) {
      const std::string name = "s" + std::to_string(rng.below(22));
      auto session = std::make_unique<TestSession>(name);
      if (const auto old = alive.find(name); old != alive.end()) {
        const std::size_t kept = old->second->draft.blocks.size() / 2;
        for (std::size_t i = 0; i < kept; ++i)
          session->draft.blocks.push_back(old->second->draft.blocks[i]);
        session->draft.position = static_cast<std::uint32_t>(kept);
      }
      const auto count = static_cast<std::uint32_t>(1 + rng.below(8));
      session->add_run(next_seed, count).with_state(next_seed, rng.below(60'000));
      next_seed += count;
      if (const auto suspended = session->suspend(harness.store())) {
        alive[name] = std::move(session);
      } else {
        ASSERT_EQ(suspended.error().code, Errc::no_space) << suspended.error().what;
        ++refusals;
        ASSERT_TRUE(harness.store().forget(alive.begin()->first));
        alive.erase(alive.begin());
      }
      ASSERT_LE(harness.disk_bytes(), harness.options().capacity_bytes);
      if (step % 40 != 17) continue;
      compactions += harness.store().stats().compactions;
      harness.reopen();
    }
    for (const auto& [name, session] : alive) harness.expect_whole(*session);
    EXPECT_GT(compactions + harness.store().stats().compactions, 10U);
    EXPECT_LT(refusals, 40U);
    harness.reopen();
    EXPECT_EQ(harness.store().list()->size(), alive.size());
    for (const auto& [name, session] : alive) harness.expect_whole(*session);
  }
}

TEST(SessionStore, NamesAreTextOfUpTo128Bytes) {
  SessionHarness harness;
  for (const std::string& name : {std::string("заметки вечера / №7"), std::string(128, 'x'),
                                  std::string("../../etc/passwd"), std::string("a.tmp")}) {
    TestSession session(name);
    session.add_run(1, 1);
    const auto suspended = session.suspend(harness.store());
    EXPECT_TRUE(suspended) << name << ": " << suspended.error().what;
  }
  for (const std::string& name :
       {std::string(), std::string(129, 'x'), std::string("two\nlines"), std::string("\xff\xfe"),
        std::string("\xc0\xaf"), std::string("nul\0", 4), std::string("\xed\xa0\x80"),
        std::string("cut \xe2\x82"), std::string("\xc2\x85")}) {
    TestSession session(name);
    session.add_run(1, 1);
    const auto refused = session.suspend(harness.store());
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, Errc::invalid);
  }
  harness.reopen();
  EXPECT_EQ(harness.store().list()->size(), 4U);
}

TEST(SessionStore, DraftsThatDoNotHoldTogetherAreRefused) {
  SessionHarness harness;
  const auto refused = [&](TestSession& session) {
    const auto outcome = session.suspend(harness.store());
    return outcome ? std::string() : std::string(errc_name(outcome.error().code));
  };
  TestSession backwards("x"), twice("x"), reserved("x"), large("x"), silent("x");
  backwards.add(1, 3).add(2, 2);
  twice.add(1, 3).add(2, 3);
  reserved.add(1, 0, {.id = kStateKindId});
  large.add(1, 0, {}, 200'000);
  EXPECT_EQ(refused(backwards), "invalid");
  EXPECT_EQ(refused(twice), "invalid");
  EXPECT_EQ(refused(reserved), "invalid");
  EXPECT_EQ(refused(large), "invalid");
  silent.add(1, 0);
  EXPECT_EQ(harness.store().suspend(silent.draft, 0).error().code, Errc::invalid)
      << "nothing to read the block from";
  EXPECT_TRUE(harness.store().list()->empty());
  TestSession good("x");
  good.add(1, 0);
  ASSERT_TRUE(good.suspend(harness.store()));
}

TEST(SessionStore, ASourceThatFailsLeavesEverythingAsItWas) {
  SessionHarness harness;
  TestSession session("s");
  session.add_run(1, 3);
  ASSERT_TRUE(session.suspend(harness.store()));
  TestSession grown("s");
  grown.add_run(1, 3).add_run(70, 5);
  grown.draft.read = [](std::size_t block, std::span<std::byte>) -> Result<void> {
    if (block < 6) return {};
    return fail(Errc::unavailable, "the engine has lost it");
  };
  const auto failed = harness.store().suspend(grown.draft, 0);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Errc::unavailable);
  harness.expect_whole(session);
  ASSERT_TRUE(grown.suspend(harness.store())) << "and it can be tried again";
  EXPECT_EQ(grown.reads, 5U) << "what the failed one had written does not count";
  harness.expect_whole(grown);
}

TEST(SessionStore, DeadlinesEndCallsAndLeaveThingsAsTheyWere) {
  SessionHarness harness;
  TestSession session("s");
  session.add_run(1, 6);
  harness.clock().advance_ns(1000);
  const auto late = session.suspend(harness.store(), 500);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::busy);
  EXPECT_FALSE(harness.store().find("s"));
  ASSERT_TRUE(session.suspend(harness.store(), 2000));
  const SessionManifest manifest = *harness.store().find("s");
  EXPECT_EQ(read_session(harness.store(), manifest, 2000), (SessionRead{.delivered = 6}));
  EXPECT_EQ(read_session(harness.store(), manifest, 500).failed, 6U);
  EXPECT_EQ(harness.store().missing(manifest), 0U) << "late is not lost";
}

// Another caller asks from within a suspend that is under way.
TEST(SessionStore, OneCallAtATimeTheOthersAreToldBusyAndQuestionsAreAnswered) {
  SessionHarness harness;
  TestSession first("first"), session("s");
  first.add_run(50, 2);
  ASSERT_TRUE(first.suspend(harness.store()));
  const SessionManifest manifest = *harness.store().find("first");
  session.add_run(1, 1);
  harness.clock().advance_ns(1000);
  int asked = 0;
  session.draft.read = [&](std::size_t, std::span<std::byte>) -> Result<void> {
    ++asked;
    TestSession other("other");
    other.add_run(90, 1);
    EXPECT_EQ(other.suspend(harness.store(), 1000).error().code, Errc::busy);
    EXPECT_EQ(harness.store().read(manifest, {}, {}, 1000, {}).error().code, Errc::busy);
    EXPECT_EQ(harness.store().list()->size(), 1U);
    EXPECT_TRUE(harness.store().find("first"));
    EXPECT_EQ(harness.store().stats().sessions, 1U);
    EXPECT_TRUE(harness.store().expire(1000000)) << "nothing has a ttl";
    return {};
  };
  ASSERT_TRUE(harness.store().suspend(session.draft, 0));
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace tiercel
