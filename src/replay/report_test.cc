// What scripts and people read of a report, and what --check refuses.
#include "replay/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/byte_size.h"
#include "placement/canonical.h"
#include "replay/report_check.h"

namespace tiercel {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;

struct Case {
  ReplayOutcome outcome;
  ReportContext context;

  Case(std::string_view driver, std::string_view pace) {
    outcome.driver = driver;
    for (int i = 0; i < 300; ++i) {
      RequestOutcome r{.arrival_ns = i * 1'000'000'000LL,
                       .turn = i % 2 == 0 ? 2U : 5U,
                       .wait_ns = 2 * kMillisecond,
                       .run_ns = 9'000 * kMillisecond};
      if (i % 3 == 0) r.refill_tier = i % 2 == 0 ? RefillTier::warm : RefillTier::cold;
      if (i % 3 == 0) r.refill_ns = (i % 2 == 0 ? 10 : 100) * kMillisecond;
      outcome.requests.push_back(r);
    }
    outcome.requests[7].fate = Fate::rejected;
    outcome.hits = {.hot = 1000, .warm = 200, .cold = 100};
    outcome.miss = 2700;
    outcome.lookups = 4000;
    outcome.decisions_sha256 = "abcd";
    outcome.payload_bytes = 64 * kKiB;
    outcome.byte_rate_factor = 1024;
    outcome.wall_s = 2.5;
    outcome.loop_s = 2;
    outcome.warm_up_s = 0.5;
    outcome.notes = {"cold: no O_DIRECT on this file system, buffered I/O instead"};
    if (driver == "drive") {
      outcome.delivered = 300;
      outcome.late = 3;
      outcome.cold_read_bytes = 100 * 68 * kKiB;
      outcome.rss_bytes = 512 * kMiB;
      outcome.measured = MeasuredRefill{.warm_s = {0.001, 0.002}, .cold_s = {0.01}};
    }
    context.version = "0.1.0";
    context.machine = {.cpu_model = "Test CPU",
                       .cores = 2,
                       .memory_bytes = 24 * kGiB,
                       .kernel = "6.1",
                       .filesystem = "ext4"};
    context.placement.name = "test";
    context.placement.model.bytes_per_token = 128 * kKiB;
    context.placement.hot.bytes = 110 * kGiB;
    context.placement.warm.bytes = 640 * kGiB;
    context.placement.cold.bytes = 6144 * kGiB;
    context.placement.warm.link.read_bytes_per_s = 20'000'000'000;
    context.placement.cold.link.read_bytes_per_s = 3'000'000'000;
    context.trace_path = "traces/t.jsonl.gz";
    context.trace_sha256 = "1234";
    context.trace_reading = "every 1";
    context.pace = pace;
  }

  Indicators indicators() const { return compute_indicators(outcome); }
  Verdict verdict() const { return judge(indicators(), outcome, context.placement); }
  std::string json() const { return report_json(outcome, indicators(), verdict(), context); }
  std::string text() const { return report_text(outcome, indicators(), verdict(), context); }
  ReportIdentity identity() const {
    return {.version = context.version,
            .placement_sha256 = placement_sha256(context.placement),
            .trace_sha256 = context.trace_sha256,
            .trace_reading = context.trace_reading,
            .payload_bytes = outcome.payload_bytes,
            .machine = context.machine};
  }
};

testing::AssertionResult has(const std::string& text, std::string_view words) {
  if (text.find(words) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "no " << words << " in\n" << text;
}

// Position of a key at the top level of our pretty-printed JSON.
std::size_t key_at(const std::string& json, const std::string& key) {
  return json.find("\n  \"" + key + "\": ");
}

TEST(ReportJson, HasTheKeysThatScriptsReadInAStableOrder) {
  const std::string json = Case("drive", "10").json();
  EXPECT_TRUE(json.starts_with("{\n  \"schema\": \"tiercel.replay/1\",\n"));
  std::size_t last = 0;
  for (const char* key : {"driver",
                          "version",
                          "placement",
                          "placement_sha256",
                          "trace",
                          "trace_sha256",
                          "machine",
                          "payload_bytes",
                          "byte_rate_factor",
                          "pace",
                          "requests",
                          "hits",
                          "miss",
                          "decisions_sha256",
                          "delivered",
                          "errors",
                          "late",
                          "wrong_bytes",
                          "skipped_stores",
                          "stored_blocks",
                          "evicted_blocks",
                          "reclaims",
                          "bytes",
                          "measured_refill_s",
                          "indicators",
                          "traffic_windows",
                          "verdict",
                          "peak",
                          "rss_bytes",
                          "lookups",
                          "lookups_per_s",
                          "wall_s",
                          "warm_up_s",
                          "notes",
                          "reason"}) {
    const std::size_t at = key_at(json, key);
    ASSERT_NE(at, std::string::npos) << key << " in\n" << json;
    EXPECT_GT(at, last) << key;
    last = at;
  }
  for (const char* inner :
       {"\"rejections\": {", "\"refill_s\": {", "\"turn_drift\": {", "\"overall\": {",
        "\"p95_traffic\": {", "\"too_large\": 0", "\"preemptions\": 0", "\"basis\": \"modelled\"",
        "\"fix_tier\": ", "\"because\": [",
        "\"hot_bytes\": ", "\"warm_bytes\": ", "\"cold_bytes\": ", "\"cold_read\": 6963200",
        "\"cold_written\": ", "\"format\": ", "\"warm_read\": "}) {
    EXPECT_TRUE(has(json, inner));
  }
}

TEST(ReportJson, ADriveHasItsMeasurementsUnrounded) {
  const std::string json = Case("drive", "10").json();
  EXPECT_TRUE(has(json, "\"late\": 3"));
  EXPECT_TRUE(has(json, "\"pace\": 10"));
  EXPECT_TRUE(has(json, "\"p50\": 0.001"));
  EXPECT_TRUE(has(json, "\"rss_bytes\": 536870912"));
  EXPECT_TRUE(has(json, "\"ratio\": 0.0033333333333333335"));
  EXPECT_TRUE(has(json, "\"lookups_per_s\": 2000"));
  EXPECT_TRUE(has(json, "\"reason\": {}"));
}

TEST(ReportJson, ASimulationHasNullsWithReasons) {
  const std::string json = Case("simulate", "max").json();
  EXPECT_TRUE(has(json, "\"late\": null"));
  EXPECT_TRUE(has(json, "\"measured_refill_s\": null"));
  EXPECT_TRUE(has(json, "\"rss_bytes\": null"));
  EXPECT_TRUE(has(json, "\"late\": \"a simulation has no real operations\""));
  EXPECT_TRUE(has(json, "\"measured_refill_s\": \"a simulation moves no bytes"));
  EXPECT_TRUE(has(json, "\"rss_bytes\": \"a simulation holds no tier in memory\""));
}

TEST(ReportJson, LateIsNullAtPaceMax) {
  EXPECT_TRUE(has(Case("drive", "max").json(), "\"late\": null"));
  EXPECT_TRUE(has(Case("drive", "max").json(), "\"late\": \"at pace max"));
}

TEST(ReportJson, NothingRefilledIsNullAtZeroAndPasses) {
  Case c("simulate", "max");
  for (auto& r : c.outcome.requests) {
    r.refill_tier = RefillTier::none;
    r.refill_ns = 0;
  }
  EXPECT_TRUE(has(c.json(),
                  "\"warm\": {\n          \"p50\": null,\n          \"p95\": null,\n          "
                  "\"p99\": null,\n          \"n\": 0"));
  EXPECT_TRUE(c.verdict().refill_pass);
}

TEST(ReportJson, DriftIsANumberOrNullWithAReason) {
  Case c("simulate", "max");
  EXPECT_TRUE(has(c.json(), "\"overall\": 8.5,"));  // P95: 2 + 100 ms over 2 + 10 ms.
  c.outcome.requests.resize(90);
  EXPECT_TRUE(has(
      c.json(),
      "\"reason\": \"overall: turns 2-3 have 45 completed requests, fewer than 50; p95_traffic: "));
}

TEST(ReportText, FitsAHundredColumnsAndNamesEverything) {
  for (const char* driver : {"simulate", "drive"}) {
    Case c(driver, "max");
    c.context.trace_path = "a/" + std::string(150, 'x') + ".jsonl.gz";
    c.outcome.hits = {.hot = 12'345'678, .warm = 223'456'789, .cold = 323'456'789};
    c.outcome.warm_read_bytes = 1023 * kGiB;
    const std::string text = c.text();
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 100U) << line;
      EXPECT_FALSE(line.ends_with(' ')) << line;
    }
    for (const char* words : {"hot", "110 GiB", "warm", "cold", "miss", "modelled", "rejections",
                              "refill P95 from cold", "drift over turns", "at P95 traffic",
                              "verdict  ", "note     cold: no O_DIRECT", "12,345,678"}) {
      EXPECT_TRUE(has(text, words));
    }
    EXPECT_EQ(text.find("measured\n") != std::string::npos, driver == std::string("drive"));
  }
}

TEST(ReportText, AFailureNamesTheTierAndTheNumbers) {
  Case c("simulate", "max");
  for (std::size_t i = 0; i < 20; ++i) c.outcome.requests[i * 15].fate = Fate::rejected;
  EXPECT_TRUE(has(c.text(), "verdict  FAIL: fix hot"));
  EXPECT_TRUE(has(c.text(), "21 of 300 = 7 %"));
  EXPECT_TRUE(has(c.text(), "FAIL\n"));
}

TEST(ReportCheck, AcceptsItsOwnReport) {
  for (const char* driver : {"simulate", "drive"}) {
    const Case c(driver, "max");
    const auto mismatch = check_report_text(c.json(), "report.json", c.identity());
    ASSERT_TRUE(mismatch) << mismatch.error().what;
    EXPECT_FALSE(*mismatch) << **mismatch;
  }
}

TEST(ReportCheck, NamesTheFirstMismatchWithBothValues) {
  const Case c("drive", "max");
  const std::string json = c.json();
  const auto first = [&](const ReportIdentity& identity) {
    const auto mismatch = check_report_text(json, "r.json", identity);
    return !mismatch ? mismatch.error().what : mismatch->value_or("");
  };
  ReportIdentity id = c.identity();
  id.version = "0.2.0";
  EXPECT_EQ(first(id), "r.json: version: expected 0.2.0, found 0.1.0");
  id = c.identity();
  id.placement_sha256 = "beef";
  id.trace_sha256 = "beef";
  EXPECT_EQ(first(id),
            "r.json: placement_sha256: expected beef, found " + c.identity().placement_sha256);
  id = c.identity();
  id.trace_sha256 = "beef";
  EXPECT_EQ(first(id), "r.json: trace_sha256: expected beef, found 1234");
  id = c.identity();
  id.trace_reading = "every 7";
  EXPECT_EQ(first(id), "r.json: trace_reading: expected every 7, found every 1");
  id = c.identity();
  id.payload_bytes = 4096;
  EXPECT_EQ(first(id), "r.json: payload_bytes: expected 4096, found 65536");
  id = c.identity();
  id.machine.cpu_model = "Other CPU";
  EXPECT_EQ(first(id), "r.json: machine.cpu_model: expected Other CPU, found Test CPU");
  id = c.identity();
  id.machine.cores = 3;
  EXPECT_EQ(first(id), "r.json: machine.cores: expected 3, found 2");
  id = c.identity();
  id.machine.kernel = "6.2";
  EXPECT_EQ(first(id), "r.json: machine.kernel: expected 6.2, found 6.1");
  id = c.identity();
  id.machine.filesystem = "xfs";
  EXPECT_EQ(first(id), "r.json: machine.filesystem: expected xfs, found ext4");
  id = c.identity();
  id.machine.memory_bytes += 100 * kMiB;  // Within 1 %.
  EXPECT_EQ(first(id), "");
  id.machine.memory_bytes += 1 * kGiB;
  EXPECT_TRUE(has(first(id), "r.json: machine.memory_bytes: expected "));
  EXPECT_EQ(first(c.identity()), "");
}

TEST(ReportCheck, ATraceWhoseNameIsNoUtf8StillMakesJson) {
  Case c("drive", "max");
  c.context.trace_path =
      "tr\xff"
      "ace\n";
  const auto mismatch = check_report_text(c.json(), "report.json", c.identity());
  ASSERT_TRUE(mismatch) << mismatch.error().what;
  EXPECT_FALSE(*mismatch);
}

TEST(ReportCheck, ANewerSchemaIsAMismatch) {
  const Case c("drive", "max");
  std::string json = c.json();
  json.replace(json.find("tiercel.replay/1"), 16, "tiercel.replay/2");
  const auto mismatch = check_report_text(json, "r.json", c.identity());
  ASSERT_TRUE(mismatch);
  EXPECT_EQ(mismatch->value_or(""),
            "r.json: schema: expected tiercel.replay/1, found tiercel.replay/2");
}

TEST(ReportCheck, MalformedReportsAreErrors) {
  const Case c("drive", "max");
  const std::string json = c.json();
  std::string no_hash = json, number = json, negative = json;
  no_hash.replace(no_hash.find("placement_sha256"), 16, "placement_sha257");
  number.replace(number.find("\"0.1.0\""), 7, "1234567");
  negative.replace(negative.find("\"payload_bytes\": 65536"), 22, "\"payload_bytes\": -6553");
  const std::vector<std::pair<std::string, std::string>> matrix = {
      {"", "r.json: not valid JSON at byte"},
      {json.substr(0, json.size() / 2), "r.json: not valid JSON at byte"},
      {"\xff\xfe", "r.json: not valid JSON at byte"},
      {"[]", "r.json: the key schema is missing"},
      {"3", "r.json: the key schema is missing"},
      {"{\"schema\": 1e999}", "r.json: not valid JSON"},
      {no_hash, "r.json: the key placement_sha256 is missing"},
      {number, "r.json: the key version is no text"},
      {negative, "r.json: the key payload_bytes is no whole number"},
      {std::string(200'000, '['), "r.json: not valid JSON at byte"},
      {std::string(200'000, '[') + std::string(200'000, ']'), "r.json: the key schema is missing"},
      {std::string(16 * kMiB + 1, ' '), "r.json: larger than 16 MiB"},
  };
  for (const auto& [text, what] : matrix) {
    const auto mismatch = check_report_text(text, "r.json", c.identity());
    ASSERT_FALSE(mismatch) << text.substr(0, 60);
    EXPECT_EQ(mismatch.error().code, Errc::invalid);
    EXPECT_TRUE(has(mismatch.error().what, what));
  }
}

TEST(ReportCheck, ReadsFromDiskAndNamesWhatIsNoFile) {
  char name[] = "/tmp/tiercel_report_XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::string dir = name;
  const Case c("drive", "max");
  EXPECT_TRUE(has(check_report(dir + "/report.json", c.identity()).error().what,
                  "report.json: no such file"));
  EXPECT_TRUE(has(check_report(dir, c.identity()).error().what, "not a regular file"));
  std::ofstream(dir + "/report.json") << c.json();
  const auto mismatch = check_report(dir + "/report.json", c.identity());
  ASSERT_TRUE(mismatch) << mismatch.error().what;
  EXPECT_FALSE(*mismatch);
  std::filesystem::remove_all(dir);
}

TEST(Machine, KnowsThisOne) {
  const Machine machine = read_machine("/tmp/not/there");
  EXPECT_GT(machine.cores, 0U);
  EXPECT_GT(machine.memory_bytes, 64 * kMiB);
  EXPECT_FALSE(machine.cpu_model.empty());
  EXPECT_FALSE(machine.kernel.empty());
  EXPECT_NE(machine.filesystem, "unknown");
  EXPECT_EQ(read_machine("/proc").filesystem, "0x9fa0");  // Named by number where we have no word.
}

}  // namespace
}  // namespace tiercel
