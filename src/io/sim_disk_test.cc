// The simulated disk itself: it must lose what may be lost, keep what must be kept, and do the same again with the same seed.
#include <functional>

#include "io/sim_disk_testing.h"

namespace tiercel {
namespace {

constexpr std::uint64_t kPage = kSimTestPage;
using Memory = SimTestMemory;

TEST(SimDisk, WhatWasNeverWrittenIsZerosAndAReservedFileTakesItsSpace) {
  SimDisk disk({.total_bytes = kMiB});
  const auto file = open_for_write(disk, "/f");
  ASSERT_TRUE(file->allocate(100 * kPage));
  EXPECT_EQ(file->status()->bytes, 100 * kPage);
  EXPECT_EQ(file->status()->allocated_bytes, 100 * kPage);
  EXPECT_EQ(disk.allocated_bytes("/"), 100 * kPage);
  EXPECT_EQ(disk.space("/")->free_bytes, kMiB - 100 * kPage);
  Memory back(2 * kPage, 'x');
  ASSERT_TRUE(file->read(98 * kPage, back.span()));
  EXPECT_EQ(back.text(), std::string(2 * kPage, '\0'));
  const auto beyond = file->read(99 * kPage, back.span());
  ASSERT_FALSE(beyond);
  EXPECT_NE(beyond.error().what.find("ends"), std::string::npos);
  ASSERT_TRUE(file->write(5, as_bytes("abc")));
  ASSERT_TRUE(file->read(4, back.span().first(5)));
  EXPECT_EQ(back.text().substr(0, 5), std::string("\0abc\0", 5));
  ASSERT_TRUE(disk.remove("/f"));
  EXPECT_EQ(disk.space("/")->free_bytes, kMiB - 100 * kPage) << "still open";
}

TEST(SimDisk, UnsyncedDataCanVanishSyncedDataCannot) {
  bool vanished = false, stayed = false;
  for (const LossMode mode : kLossModes) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      SimDisk disk;
      make_durable(disk, "/f", std::string(3 * kPage, 'a'));
      const auto file = open_for_write(disk, "/f");
      ASSERT_TRUE(file->write(kPage, as_bytes(std::string(kPage, 'b'))));
      ASSERT_TRUE(file->sync());
      ASSERT_TRUE(file->write(2 * kPage, as_bytes(std::string(kPage, 'c'))));
      disk.restart(seed, mode);
      const std::string found = content_of(disk, "/f");
      EXPECT_EQ(found.substr(0, 2 * kPage), std::string(kPage, 'a') + std::string(kPage, 'b'));
      const std::string rest = found.substr(2 * kPage);
      vanished = vanished || rest == std::string(kPage, 'a');
      stayed = stayed || rest == std::string(kPage, 'c');
      if (mode == LossMode::keep) {
        EXPECT_EQ(rest, std::string(kPage, 'c'));
      }
      if (mode == LossMode::drop) {
        EXPECT_EQ(rest, std::string(kPage, 'a'));
      }
    }
  }
  EXPECT_TRUE(vanished && stayed);
}

TEST(SimDisk, ANameLivesOnlyOnceItsDirectoryIsSynced) {
  SimDisk disk;
  ASSERT_TRUE(disk.make_directory("/a/b"));
  const auto file = open_for_write(disk, "/a/b/f");
  ASSERT_TRUE(file->write(0, as_bytes("text")));
  ASSERT_TRUE(file->sync());
  EXPECT_TRUE(disk.restarted(1, LossMode::drop)->files().empty())
      << "its bytes are durable, its name is not";
  sync_directory(disk, "/a/b");
  EXPECT_EQ(content_of(*disk.restarted(1, LossMode::drop), "/a/b/f"), "text");
  ASSERT_TRUE(disk.rename("/a/b/f", "/a/b/g"));
  EXPECT_EQ(disk.files(), std::vector<std::string>{"/a/b/g"});
  EXPECT_EQ(disk.restarted(1, LossMode::drop)->files(), std::vector<std::string>{"/a/b/f"});
  EXPECT_EQ(disk.restarted(1, LossMode::keep)->files(), std::vector<std::string>{"/a/b/g"});
  std::set<std::vector<std::string>> found;
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    found.insert(disk.restarted(seed, LossMode::reorder)->files());
  EXPECT_EQ(found, (std::set<std::vector<std::string>>{{"/a/b/f"}, {"/a/b/g"}}))
      << "one of its names, never both or none";
  ASSERT_TRUE(disk.remove("/a/b/g"));
  EXPECT_EQ(disk.restarted(1, LossMode::drop)->files(), std::vector<std::string>{"/a/b/f"});
  sync_directory(disk, "/a/b");
  EXPECT_TRUE(disk.restarted(1, LossMode::drop)->files().empty());
}

TEST(SimDisk, AWriteIsTornBySectorsOrPagesAndALaterOneMayLandWithoutAnEarlierOne) {
  std::set<std::size_t> sectors_found;
  bool reordered = false, torn = false;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SimDisk disk;
    make_durable(disk, "/f", std::string(4 * kPage, 'a'));
    const auto file = open_for_write(disk, "/f");
    ASSERT_TRUE(file->write(0, as_bytes(std::string(2 * kPage, 'b'))));
    ASSERT_TRUE(file->write(2 * kPage, as_bytes(std::string(kPage, 'c'))));
    ASSERT_TRUE(file->write(kPage, as_bytes(std::string(kPage, 'd'))));
    const std::string found = content_of(*disk.restarted(seed, LossMode::torn), "/f");
    ASSERT_EQ(found.size(), 4 * kPage);
    for (std::size_t sector = 0; sector < found.size(); sector += 512) {
      const std::string part = found.substr(sector, 512);
      ASSERT_EQ(part, std::string(512, part[0])) << "a sector is never torn";
      const std::string possible = sector < kPage       ? "ab"
                                   : sector < 2 * kPage ? "abd"
                                   : sector < 3 * kPage ? "ac"
                                                        : "a";
      ASSERT_NE(possible.find(part[0]), std::string::npos) << sector << part[0];
      if (part[0] != 'a') sectors_found.insert(sector);
    }
    torn = torn || (found.substr(0, kPage) != std::string(kPage, 'a') &&
                    found.substr(0, kPage) != std::string(kPage, 'b'));
    const std::string whole = content_of(*disk.restarted(seed, LossMode::reorder), "/f");
    const bool first = whole[0] == 'b', second = whole[2 * kPage] == 'c';
    EXPECT_EQ(whole.substr(0, kPage), std::string(kPage, first ? 'b' : 'a'))
        << "whole or not at all";
    reordered = reordered || (second && !first);
  }
  EXPECT_EQ(sectors_found.size(), 24U);
  EXPECT_TRUE(torn);
  EXPECT_TRUE(reordered);
}

TEST(SimDisk, ALengthIsOldOrNew) {
  std::set<std::uint64_t> lengths;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SimDisk disk;
    make_durable(disk, "/f", "1234");
    const auto file = open_for_write(disk, "/f");
    ASSERT_TRUE(file->truncate(0));
    ASSERT_TRUE(file->write(0, as_bytes("abcdefgh")));
    lengths.insert(content_of(*disk.restarted(seed, LossMode::torn), "/f").size());
  }
  EXPECT_EQ(lengths, (std::set<std::uint64_t>{4, 8}));
}

// Old or new content at every power cut; the workload and its number of steps.
struct ReplaceFindings {
  std::uint64_t points = 0;
  bool old_seen = false, new_seen = false, mix_seen = false;
};
ReplaceFindings cut_everywhere(
    const std::function<Result<void>(Disk&, std::span<const std::byte>)>& replace) {
  ReplaceFindings findings;
  const std::string old_text(3 * kPage, 'o'), new_text(5 * kPage + 100, 'n');
  for (std::uint64_t cut = 0;; ++cut) {
    SimDisk disk;
    make_durable(disk, "/meta", old_text);
    const std::uint64_t start = disk.steps();
    disk.cut_power_after(start + cut);
    const bool finished = replace(disk, as_bytes(new_text)).has_value();
    for (const LossMode mode : kLossModes) {
      for (std::uint64_t seed = 0; seed < 30; ++seed) {
        ++findings.points;
        const std::string found = content_of(*disk.restarted(seed, mode), "/meta");
        findings.old_seen = findings.old_seen || found == old_text;
        findings.new_seen = findings.new_seen || found == new_text;
        findings.mix_seen = findings.mix_seen || (found != old_text && found != new_text);
        if (finished && disk.powered()) {
          EXPECT_EQ(found, new_text) << "acknowledged";
        }
      }
    }
    if (finished) break;
  }
  return findings;
}

TEST(SimDisk, ReplaceFileLeavesOldOrNewAtEveryPowerCut) {
  const ReplaceFindings findings = cut_everywhere([](Disk& disk, std::span<const std::byte> text) {
    return replace_file(disk, "/", "meta", text);
  });
  EXPECT_GE(findings.points, 6U * 4 * 30);
  EXPECT_TRUE(findings.old_seen && findings.new_seen);
  EXPECT_FALSE(findings.mix_seen);
}

// The control of the test above: a replace that renames what it did not sync is found out.
TEST(SimDisk, AReplaceWithoutItsSyncIsFoundOut) {
  const ReplaceFindings findings =
      cut_everywhere([](Disk& disk, std::span<const std::byte> text) -> Result<void> {
        {
          TIERCEL_TRY(const auto file, disk.open("/meta.tmp", {.write = true, .create = true}));
          TIERCEL_TRY_VOID(file->write(0, text));
        }
        TIERCEL_TRY_VOID(disk.rename("/meta.tmp", "/meta"));
        return {};
      });
  EXPECT_TRUE(findings.mix_seen);
}

TEST(SimDisk, PowerOffMeansEverythingFailsAndNothingChanges) {
  SimDisk disk;
  const auto file = open_for_write(disk, "/f");
  disk.cut_power_after(2);
  EXPECT_TRUE(file->write(0, as_bytes("a")));
  EXPECT_FALSE(disk.powered());
  for (const auto& outcome :
       {file->write(0, as_bytes("b")), file->sync(), file->truncate(0), file->allocate(1),
        disk.rename("/f", "/g"), disk.remove("/f"), disk.make_directory("/d")}) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().os_errno, EIO);
    EXPECT_NE(outcome.error().what.find("the power is off"), std::string::npos);
  }
  EXPECT_FALSE(disk.open("/f", {}));
  EXPECT_FALSE(disk.list("/"));
  EXPECT_FALSE(disk.lock("/l", "x"));
  EXPECT_EQ(disk.steps(), 2U);
  EXPECT_EQ(disk.describe_step(2), "step 2: write /f 0+1");
  disk.restart(1, LossMode::keep);
  EXPECT_EQ(content_of(disk, "/f"), "a");
  EXPECT_EQ(disk.steps(), 0U) << "counted anew";
  const auto dead = file->sync();
  ASSERT_FALSE(dead);
  EXPECT_NE(dead.error().what.find("before the power was cut"), std::string::npos);
}

TEST(SimDisk, PowerCanBeCutAgainDuringTheRecovery) {
  SimDisk disk;
  make_durable(disk, "/f", "old");
  disk.restart(1, LossMode::drop);
  const auto file = open_for_write(disk, "/f");
  disk.cut_power_after(1);
  EXPECT_TRUE(file->write(0, as_bytes("new")));
  EXPECT_FALSE(file->sync());
  disk.restart(2, LossMode::drop);
  EXPECT_EQ(content_of(disk, "/f"), "old");
}

TEST(SimDisk, ALockExcludesTellsItsNoteAndEndsWithThePower) {
  SimDisk disk;
  auto held = disk.lock("/lock", "pid 1\n");
  ASSERT_TRUE(held);
  const auto second = disk.lock("/lock", "pid 2");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::busy);
  EXPECT_NE(second.error().what.find("pid 1"), std::string::npos);
  EXPECT_FALSE(disk.lock_shared("/lock"));
  held->reset();
  {
    const auto reader = disk.lock_shared("/lock"), other = disk.lock_shared("/lock");
    ASSERT_TRUE(reader && other);
    EXPECT_FALSE(disk.lock("/lock", "pid 3"));
  }
  held = disk.lock("/lock", "pid 4");
  ASSERT_TRUE(held);
  disk.restart(1, LossMode::keep);
  const auto after = disk.lock("/lock", "pid 5");
  ASSERT_TRUE(after);
  held->reset();  // Of a dead process: frees nobody else's.
  EXPECT_FALSE(disk.lock("/lock", "pid 6"));
}

// One workload of everything, twice: every step, every byte and every loss is the same.
TEST(SimDisk, TheSameSeedDoesTheSameAgain) {
  const auto run = [](std::uint64_t seed) {
    SimDisk disk({.seed = seed});
    EXPECT_TRUE(disk.make_directory("/d"));
    const auto file = open_for_write(disk, "/d/f");
    EXPECT_TRUE(file->allocate(32 * kPage));
    sync_directory(disk, "/d");
    const auto queue = std::move(*disk.make_queue({.depth = 4}));
    const Memory memory(kPage, 'x');
    std::vector<IoCompletion> done;
    disk.cut_power_after(25);
    for (std::uint64_t i = 0; i < 40; ++i) {
      while (!queue->submit({.type = i % 7 == 6 ? IoType::sync : IoType::write,
                             .file = file.get(),
                             .offset = i % 32 * kPage,
                             .pieces = {{memory.span().data(), kPage}}})) {
        queue->wait(done, 1);
      }
    }
    std::string story;
    for (const SimStep& step : disk.log()) story += disk.describe_step(step.number) + "\n";
    disk.restart(seed, LossMode::torn);
    return story + content_of(disk, "/d/f");
  };
  EXPECT_EQ(run(3), run(3));
  EXPECT_NE(run(3), run(4));
}

// An image taken at a step is what cutting the power at that step would have left; the disk it was taken of goes on.
TEST(SimDisk, AnImageOfEachStepIsWhatACutThereWouldLeave) {
  const auto work = [](SimDisk& disk) {
    static_cast<void>(disk.make_directory("/d"));
    for (int i = 0; i < 3; ++i)
      static_cast<void>(replace_file(disk, "/d", "name", as_bytes("content " + std::to_string(i))));
  };
  const auto content = [](SimDisk& disk) {
    const auto bytes = read_file(disk, "/d/name", 100);
    return bytes ? std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()) : "-";
  };
  for (const LossMode mode : kLossModes) {
    std::vector<std::string> images;
    SimDisk watched;
    watched.watch_steps([&](std::uint64_t step, const SimDisk::Image& image) {
      images.push_back(content(*image(step, mode)));
    });
    work(watched);
    EXPECT_EQ(content(watched), "content 2");
    ASSERT_EQ(images.size(), watched.steps());
    for (std::uint64_t step = 1; step <= images.size(); ++step) {
      SimDisk cut;
      cut.cut_power_after(step);
      work(cut);
      cut.restart(step, mode);
      EXPECT_EQ(content(cut), images[step - 1]) << "step " << step << " " << loss_mode_name(mode);
    }
  }
}

}  // namespace
}  // namespace tiercel
